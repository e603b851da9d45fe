/**
 * Is it flowing? One lamp for each step from the sender to the agents. A lamp shows what happens now, compared with the same hour of last
 * week. For a step that does not work it shows the cause, since when, and the fix.
 */
import { actionOf, type ConditionKind } from '../../model/conditions.ts';
import { QUARTER_SECONDS, quarterOf } from '../../model/history.ts';
import type { Issue } from '../../model/issues.ts';
import type { Role } from '../../model/users.ts';
import type { agentActivity, webhookHistory } from '../activity.ts';
import { answers, answerWords } from '../charts/traffic.ts';
import { ownPage } from '../overview/issues.ts';
import { type Call, partOf } from '../page.ts';
import { count, plural, span } from '../show.ts';
import { agentState, type Tone } from './state.ts';

interface Cause {
  text: string;
  /** ISO; null: not known. */
  since: string | null;
  fix: string;
  /** A link, or with `fields` a form. */
  action: { text: string; href: string; role: Role; fields?: Readonly<Record<string, string>> } | null;
}

interface Lamp {
  id: string;
  name: string;
  /** Page of the step; null: none. */
  href: string | null;
  tone: Tone;
  /** What happens now. */
  text: string;
  causes: Cause[];
}

/** The members of a webhook that its lamps need. */
interface FlowWebhook {
  id: string;
  name: string;
  enabled: boolean;
  /** Absent: not known. */
  cell?: number;
  /** Undefined: it could not be read. */
  counted: Awaited<ReturnType<typeof webhookHistory>>[string] | undefined;
}

/** An hour of last week with fewer requests says nothing about this hour. */
const USUAL_MIN = 20;
/** Below this share of last week, a sender is not as usual. The last hour is up to a quarter shorter. */
const USUAL_SHARE_MIN = 0.4;
/** Above this share of refused requests, a lamp is not green. */
const REFUSED_SHARE_MAX = 0.05;
const HOUR_QUARTERS = 4;

const ISSUES_MAX = '200';

const stepOf: Partial<Record<ConditionKind, 'sender' | 'verified' | 'disk'>> = {
  silent: 'sender',
  rejections: 'verified',
  limited: 'verified',
  failing: 'verified',
  old_secret: 'verified',
  database: 'disk',
  spool: 'disk',
  cell: 'disk',
};

/**
 * Reads the open and snoozed issues of these subjects and of the disk; null: they cannot be read in time.
 * @param ids of webhooks, agents and cells
 */
export async function readIssues(call: Call, ids: readonly (string | number)[]): Promise<Issue[] | null> {
  const queries = [{ subject_id: ids.join(',') }, { kind: 'database' }, { kind: 'spool' }].flatMap((about) =>
    ['open', 'snoozed'].map((state) => ({ ...about, state, limit: ISSUES_MAX })),
  );
  const listed = await Promise.all(queries.map((query) => partOf(call('listIssues', { query }))));
  return listed.includes(null) ? null : listed.flatMap((list) => list!.items);
}

/** The lamps of the steps before the agents: sender, verified, on disk. Several webhooks share them. */
export function receivingLamps(webhooks: readonly FlowWebhook[], issues: readonly Issue[], nowMs: number): Lamp[] {
  const isOfCell = (name: string) => webhooks.some(({ cell }) => name.startsWith(`${cell} (`));
  const isOwn = ({ kind, subject }: Issue) =>
    subject.kind === 'webhook'
      ? webhooks.some(({ id }) => id === subject.id)
      : kind !== 'cell' || isOfCell(subject.name);
  const of = (step: string) => issues.filter((issue) => stepOf[issue.kind] === step && isOwn(issue));
  const [silent, wrong, unstored] = [of('sender'), of('verified'), of('disk')];
  const hour = lastHour(webhooks, nowMs);
  const { accepted, usual } = hour;
  const refused = hour.rejected + hour.limited + hour.refused;
  const requests = accepted + refused;
  const isQuiet = requests === 0;
  const events = webhooks.map(({ counted }) => counted?.last_event_at ?? '');
  const last = events.sort().at(-1) || null;
  const [only] = webhooks.length === 1 ? webhooks : [];
  const link = (text: string, path: string) =>
    only ? { text, href: `/webhooks/${only.id}${path}`, role: 'viewer' as const } : null;

  const off = webhooks.filter(({ enabled }) => !enabled);
  const sender = [...off.map(disabledCause), ...silent.map(causeOf)];
  if (usual >= USUAL_MIN && requests < usual * USUAL_SHARE_MIN && silent.length === 0 && off.length < webhooks.length)
    sender.push({
      text: isQuiet ? 'No request came in the last hour.' : 'Far fewer requests than usual.',
      since: isQuiet ? last : null,
      fix: 'Check that the sender runs and has the URL of the webhook.',
      action: link('What the sender needs', '/secret'),
    });
  const isRefused = refused > requests * REFUSED_SHARE_MAX;
  const why = hour.rejected > 0 ? link('See why and fix it', '/rejections') : link('See why', '#requests');
  // The issue `failing` links to the page of the webhook, which shows these lamps: link to the reason instead.
  const verified = wrong.map((issue) =>
    issue.kind === 'failing' && why ? { ...causeOf(issue), action: why } : causeOf(issue),
  );
  if (isRefused && wrong.length === 0)
    verified.push({
      text: `${count(refused)} of ${plural(requests, 'request')} were refused in the last hour.`,
      since: null,
      fix: 'The list of requests has the reason of each, and what to do.',
      action: why,
    });
  const seen = webhooks.some(({ counted }) => counted === undefined)
    ? 'The counts could not be read'
    : last === null
      ? 'No request yet'
      : `No request in the last hour; last event ${span(last, nowMs)} ago`;
  const now = isQuiet ? seen : `${plural(requests, 'request')} in the last hour`;
  const refusals = answers.filter((name) => name !== 'accepted' && hour[name] > 0);
  const refusedText = refusals.map((name) => `${count(hour[name])} ${answerWords[name]}`).join(', ');
  const lamp = (id: string, name: string, text: string, causes: Cause[], isBad: boolean, works: boolean): Lamp => {
    const tone = causes.length > 0 ? (isBad ? 'bad' : 'warn') : works ? 'good' : '';
    return { id, name, href: null, tone, text, causes };
  };
  return [
    lamp(
      'sender',
      only ? 'Sender' : 'Senders',
      usual > 0 ? `${now}, ${count(usual)} in the same hour of last week` : now,
      sender,
      silent.length > 0 || off.length === webhooks.length,
      !isQuiet,
    ),
    lamp(
      'verified',
      'Verified',
      isQuiet ? '–' : refusedText || 'None refused',
      verified,
      wrong.some(({ kind }) => kind === 'rejections' || kind === 'failing') || (isRefused && accepted === 0),
      !isQuiet,
    ),
    lamp(
      'disk',
      'On disk',
      isQuiet ? '–' : `${count(accepted)} accepted`,
      unstored.map(causeOf),
      unstored.some(({ kind }) => kind !== 'spool'),
      accepted > 0,
    ),
  ];
}

/**
 * The lamp of an agent.
 * @param does undefined: its activity could not be read
 */
export function agentLamp(
  { id, name }: { id: string; name: string },
  does: Awaited<ReturnType<typeof agentActivity>>[string] | undefined,
  issues: readonly Issue[],
  nowMs: number,
): Lamp {
  const { word, tone, cause } = agentState(does, nowMs);
  const href = `/agents/${id}`;
  // Without the issue of its pause, which is a cause of its own below: it can be ended here.
  const own = issues.filter(({ subject, kind }) => subject.kind === 'agent' && subject.id === id && kind !== 'paused');
  const causes = own.map(causeOf);
  if (does?.paused)
    causes.unshift({
      text: 'The agent is paused: its deliveries wait.',
      since: does.paused_at,
      fix: '',
      action: { text: 'Resume', href: `${href}/pause`, role: 'operator', fields: { paused: 'false' } },
    });
  else if (causes.length === 0 && cause !== undefined && tone !== '')
    causes.push({
      text: cause[0],
      since: word === 'stopped' ? does!.last_seen_at : null,
      fix: cause[1],
      action: { text: 'Open the agent', href, role: 'viewer' },
    });
  const isBad = tone === 'bad' || own.some(({ kind }) => kind === 'pending' || kind === 'undelivered');
  const seen = does?.last_seen_at ? `, seen ${span(does.last_seen_at, nowMs)} ago from ${does.last_seen_from}` : '';
  const waits = does?.waiting_since ? `; the oldest delivery waits for ${span(does.waiting_since, nowMs)}` : '';
  return {
    id: `agent-${id}`,
    name,
    href,
    tone: causes.length === 0 ? tone : isBad ? 'bad' : 'warn',
    text: `${word}${seen}${waits}`,
    causes,
  };
}

/** The lamp of a webhook without subscribed agents. */
export function noAgentLamp(webhookId: string): Lamp {
  const action = { text: 'Create an agent', href: `/agents/new?webhook_id=${webhookId}`, role: 'operator' as const };
  const causes = [{ text: 'Events are stored, and no agent gets them.', since: null, fix: '', action }];
  return { id: 'agents', name: 'Agents', href: null, tone: '', text: 'None is subscribed', causes };
}

/**
 * The lamps with a verdict. `open`: id of the first red lamp, else of the first yellow one; null: neither.
 * @param isRead false: the issues could not be read
 */
export function flowOf(lamps: readonly Lamp[], isRead: boolean) {
  const first = lamps.find(({ tone }) => tone === 'bad') ?? lamps.find(({ tone }) => tone === 'warn');
  if (first !== undefined) {
    const verdict = `${first.tone === 'bad' ? 'It is not flowing' : 'It is flowing, but'}: ${first.name}`;
    return { lamps, open: first.id, verdict };
  }
  const flows = lamps.some(({ tone }) => tone === 'good');
  const verdict = !isRead ? 'The issues could not be read' : flows ? 'It is flowing' : 'Nothing flows yet';
  return { lamps, open: null, verdict };
}

function causeOf({ kind, title, fix, first_at, url }: Issue): Cause {
  return { text: title, since: first_at, fix, action: { text: actionOf(kind), ...ownPage(url) } };
}

function disabledCause({ id, name }: FlowWebhook): Cause {
  return {
    text: `The webhook ${name} is disabled: requests get a 410 response and are not stored.`,
    since: null,
    fix: '',
    action: { text: 'Enable', href: `/webhooks/${id}/switch`, role: 'operator', fields: { enabled: 'true' } },
  };
}

/** Requests of the last four quarters of an hour, the current one included, and of the same hour of last week. */
function lastHour(webhooks: readonly FlowWebhook[], nowMs: number) {
  const since = new Date(quarterOf(nowMs) - (HOUR_QUARTERS - 1) * QUARTER_SECONDS * 1_000).toISOString();
  const sum = { accepted: 0, rejected: 0, limited: 0, refused: 0, usual: 0 };
  for (const { counted } of webhooks) {
    sum.usual += counted?.week_ago ?? 0;
    for (const quarter of counted?.quarters ?? [])
      if (quarter.at >= since) for (const name of answers) sum[name] += quarter[name];
  }
  return sum;
}
