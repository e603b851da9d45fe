/** The end of a run: one line of JSON with commit and machine, and a text with planned against sent, the answers, and the limits. */
import { answerSelectors } from './answers.ts';
import type { Plan } from './plans.ts';
import { type Data, figuresOf, type StepsRun, stepsOf, tableOf } from './steps.ts';

/** Limits that always hold: they make k6 count the answers with their tags. */
const NO_LIMIT = 'count>=0';
/** Share of the planned requests below which the text explains the difference. */
const SENT_MIN = 0.999;

/** What k6 writes at the end: text to the terminal, and a line of JSON to SUMMARY. @param earlier runs to compare with */
export function summarize(plan: Plan, data: Data, at: Date, earlier: StepsRun[] = []): Record<string, string> {
  const { SUMMARY } = plan.settings;
  const record = recordOf(plan, data, at);
  // The reason is in the error of setup.
  if (record.sent === 0) return { stderr: `k6 ${plan.script}: nothing was sent\n` };
  const text = textOf(record, earlier);
  if (SUMMARY === '') return { stdout: text };
  return { [SUMMARY === 'stdout' ? 'stderr' : 'stdout']: text, [SUMMARY]: `${JSON.stringify(record)}\n` };
}

/** A line as in bench/results. It has no secret. */
export function recordOf(plan: Plan, data: Data, at: Date) {
  const { COMMIT, MACHINE, SUMMARY: _file, ...settings } = plan.settings;
  const secret = /^WEIR_/;
  const { commit = '', ...build } = data.setup_data?.build ?? {};
  const limits = Object.entries(data.metrics).flatMap(([name, metric]) =>
    Object.entries(metric!.thresholds ?? {}).map(([limit, { ok }]) => ({
      name,
      limit,
      ok: ok && !isMeasured(data, name) ? null : ok,
    })),
  );
  const judged = limits.filter(({ limit }) => limit !== NO_LIMIT).sort((a, b) => (a.name < b.name ? -1 : 1));
  const shown = Object.keys(data.metrics).filter(
    (name) => !name.includes('{') || judged.some((one) => one.name === name),
  );
  const steps = stepsOf(plan, data);
  return {
    scenario: `k6 ${plan.script}`,
    settings: Object.fromEntries(Object.entries(settings).filter(([name]) => !secret.test(name))),
    at: at.toISOString(),
    machine: { name: MACHINE || null, commit: COMMIT || commit || null, ...build },
    planned: plan.planned,
    sent: figuresOf(data, 'weir_answers').count ?? 0,
    answers: answersOf(data),
    results: Object.fromEntries(shown.map((name) => [name, rounded(figuresOf(data, name))])),
    goals: judged.map(({ name, limit, ok }) => ({ what: `${name}: ${limit}`, met: ok })),
    ...(steps.length === 0 ? {} : { steps }),
  };
}

/** Number of answers by status and code, such as `503 queue_full`. */
function answersOf(data: Data): Record<string, number> {
  const named = answerSelectors.map((tags): [string, number] => [
    tags.replace('status:', '').replace(',code:', ' '),
    figuresOf(data, `weir_answers{${tags}}`).count ?? 0,
  ]);
  const other = named.reduce((rest, [, count]) => rest - count, figuresOf(data, 'weir_answers').count ?? 0);
  return Object.fromEntries([...named, ['other', other] as const].filter(([, count]) => count > 0));
}

function textOf(record: ReturnType<typeof recordOf>, earlier: StepsRun[]): string {
  const { scenario, machine, planned, sent, answers, results, goals, steps } = record;
  const unmeasured = goals.filter(({ met }) => met === null).length;
  const figure = (what: string) => {
    const [, name, stat] = /^(.*): (p\([\d.]+\)|\w+)/.exec(what)!;
    return results[name!]![stat!] ?? '-';
  };
  return [
    `${scenario}: commit ${machine.commit ?? 'unknown'}, machine ${machine.name ?? 'unknown'}`,
    `sent ${sent}${planned === null ? '' : ` of ${planned} planned requests`}`,
    ...(planned !== null && sent < planned * SENT_MIN
      ? [
          `${planned - sent} were not sent: the run ended early, all virtual users waited for answers (VUS), or k6 lacked processor time. The figures are those of a lower rate.`,
        ]
      : []),
    ...Object.entries(answers).map(([answer, count]) => `answered ${answer === '0' ? 'by nothing' : answer}: ${count}`),
    ...goals.flatMap(({ what, met }) =>
      met === null ? [] : [`${met ? 'met   ' : 'MISSED'}  ${what}   (${figure(what)})`],
    ),
    ...(unmeasured === 0 ? [] : [`${unmeasured} limits were not measured: the run ended before.`]),
    ...(steps === undefined ? [] : ['', tableOf([...earlier, record as unknown as StepsRun])]),
    '',
  ].join('\n');
}

/** False: the run ended before the first value. k6 says that its limits are kept. A time is never 0. */
function isMeasured(data: Data, name: string): boolean {
  const { contains, values } = data.metrics[name]!;
  const { max, passes = 1, fails = 0 } = values;
  const [scenario] = /scenario:\w+/.exec(name) ?? [];
  const ran = scenario === undefined || figuresOf(data, `weir_answers{${scenario}}`).count !== 0;
  return ran && !(contains === 'time' && max === 0) && passes + fails > 0;
}

function rounded(figures: Record<string, number | undefined>): Record<string, number> {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, Number(value!.toFixed(3))]));
}
