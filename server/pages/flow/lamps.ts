/**
 * Is it flowing? One lamp for each step from the sender to the agents: what happens now, against the same hour of last week, and for a step
 * that does not work the cause, since when, and what fixes it.
 */
import { type ConditionKind, conditionTable } from '../../model/conditions.ts';
import { QUARTER_SECONDS, quarterOf } from '../../model/history.ts';
import type { Role } from '../../model/users.ts';
import type { webhookHistory } from '../activity.ts';
import type { Call } from '../call.ts';
import { ownPage } from '../overview/issues.ts';
import { partOf } from '../page.ts';
import { count, plural, span } from '../show.ts';

export type Tone = 'good' | 'warn' | 'bad' | '';

export interface Cause {
  text: string;
  /** ISO; null: not known. */
  since: string | null;
  fix: string;
  action: Action | null;
}

/** A link, or with `fields` a form. */
interface Action {
  text: string;
  href: string;
  role: Role;
  fields?: Readonly<Record<string, string>>;
}

export interface Lamp {
  id: string;
  name: string;
  /** Page of the step; null: none. */
  href: string | null;
  tone: Tone;
  /** What happens now. */
  text: string;
  causes: Cause[];
}

export type Counted = Awaited<ReturnType<typeof webhookHistory>>[string];
/** What the lamps of a webhook need of it. */
export interface FlowWebhook {
  id: string;
  name: string;
  enabled: boolean;
  /** Absent: not known. */
  cell?: number;
  /** Undefined: it could not be read. */
  counted: Counted | undefined;
}

/** An hour of last week with fewer requests says nothing about this hour. */
const USUAL_MIN = 20;
/** Below this share of last week, a sender is not as usual. The last hour is up to a quarter shorter. */
const USUAL_SHARE_MIN = 0.4;
/** From this share of refused requests on, a lamp is not green. */
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

/** What is wrong with a webhook, an agent, or Weir itself. */
export interface Trouble {
  kind: ConditionKind;
  text: string;
  fix: string;
  url: string;
  /** ISO; null: not known. */
  since: string | null;
  webhook_id: string | null;
  agent_id: string | null;
  /** The name of what it concerns; a cell has its number before it. */
  name: string | null;
}

/** Reads what is wrong now; null: it cannot be read in time. */
export async function readTrouble(call: Call): Promise<Trouble[] | null> {
  const listed = await Promise.all(
    ['open', 'snoozed'].map((state) => partOf(call('listIssues', { query: { state, limit: ISSUES_MAX } }))),
  );
  if (listed.includes(null)) return null;
  return listed
    .flatMap((list) => list?.items ?? [])
    .map(({ kind, subject, title, fix, url, first_at }) => ({
      kind,
      text: title,
      fix,
      url,
      since: first_at,
      webhook_id: subject.kind === 'webhook' ? subject.id : null,
      agent_id: subject.kind === 'agent' ? subject.id : null,
      name: subject.name,
    }));
}

/** The lamps of the steps before the agents. Of several webhooks, what is wrong is named. */
export function receivingLamps(webhooks: readonly FlowWebhook[], troubles: readonly Trouble[], nowMs: number): Lamp[] {
  const ids = new Set(webhooks.map(({ id }) => id));
  const isOfCell = (name: string | null) => webhooks.some(({ cell }) => name?.startsWith(`${cell} (`));
  const held = (step: string) =>
    troubles.filter(
      ({ kind, webhook_id, name }) =>
        stepOf[kind] === step && (webhook_id === null ? kind !== 'cell' || isOfCell(name) : ids.has(webhook_id)),
    );
  const hours = webhooks.map((webhook) => ({ webhook, ...hourOf(webhook.counted, nowMs) }));
  const total = (name: 'accepted' | 'rejected' | 'limited' | 'refused' | 'requests' | 'usual') =>
    hours.reduce((sum, hour) => sum + hour[name], 0);
  const last =
    webhooks
      .map(({ counted }) => counted?.last_event_at ?? '')
      .sort()
      .at(-1) || null;
  const [requests, usual] = [total('requests'), total('usual')];
  const path = webhooks.length === 1 ? `/webhooks/${webhooks[0]!.id}` : null;

  const off = webhooks.filter(({ enabled }) => !enabled);
  const isUnusual = usual >= USUAL_MIN && requests < usual * USUAL_SHARE_MIN;
  const sender: Cause[] = [
    ...off.map((webhook) => disabledCause(webhook)),
    ...held('sender').map(causeOf),
    ...(isUnusual && held('sender').length === 0 && off.length < webhooks.length
      ? [
          {
            text: requests === 0 ? 'No request came in the last hour.' : 'Far fewer requests than usual.',
            since: requests === 0 ? last : null,
            fix: 'Check that the sender runs and has the URL of the webhook.',
            action:
              path === null ? null : { text: 'What the sender needs', href: `${path}/secret`, role: 'viewer' as const },
          },
        ]
      : []),
  ];
  const against = usual > 0 ? `, ${count(usual)} in the same hour of last week` : '';
  const refusals = total('rejected') + total('limited') + total('refused');
  const isRefused = refusals > requests * REFUSED_SHARE_MAX;
  const wrong = held('verified');
  const verified: Cause[] = [
    ...wrong.map(causeOf),
    ...(isRefused && wrong.length === 0
      ? [
          {
            text: `${count(refusals)} of ${plural(requests, 'request')} were refused in the last hour.`,
            since: null,
            fix: 'The list of requests has the reason of each, and what to do.',
            action: path === null ? null : { text: 'See why', href: `${path}#requests`, role: 'viewer' as const },
          },
        ]
      : []),
  ];
  const disk = held('disk').map(causeOf);
  const none = requests === 0;
  const isUnread = webhooks.some(({ counted }) => counted === undefined);
  const seen = isUnread
    ? 'The counts could not be read'
    : last === null
      ? 'No request yet'
      : `No request in the last hour; last event ${span(last, nowMs)} ago`;
  return [
    {
      id: 'sender',
      name: webhooks.length === 1 ? 'Sender' : 'Senders',
      href: null,
      tone: toneOf(sender, held('sender').length > 0 || (off.length > 0 && off.length === webhooks.length), !none),
      text: none ? `${seen}${against}` : `${plural(requests, 'request')} in the last hour${against}`,
      causes: sender,
    },
    {
      id: 'verified',
      name: 'Verified',
      href: null,
      tone: toneOf(
        verified,
        wrong.some(({ kind }) => kind === 'rejections' || kind === 'failing') || (isRefused && total('accepted') === 0),
        !none,
      ),
      text: none ? '–' : refusals === 0 ? 'None refused' : refusedText(hours),
      causes: verified,
    },
    {
      id: 'disk',
      name: 'On disk',
      href: null,
      tone: toneOf(
        disk,
        held('disk').some(({ kind }) => kind !== 'spool'),
        total('accepted') > 0,
      ),
      text: none ? '–' : `${count(total('accepted'))} stored`,
      causes: disk,
    },
  ];
}

/** The first lamp that is red, else the first that is yellow, is open. @param isRead false: what is wrong could not be read */
export function flowOf(
  lamps: readonly Lamp[],
  isRead: boolean,
): { lamps: Lamp[]; open: string | null; verdict: string; tone: Tone } {
  const first = lamps.find(({ tone }) => tone === 'bad') ?? lamps.find(({ tone }) => tone === 'warn');
  const tone = first?.tone ?? (isRead && lamps.some((lamp) => lamp.tone === 'good') ? 'good' : '');
  const verdict =
    first === undefined
      ? !isRead
        ? 'The issues could not be read'
        : tone === 'good'
          ? 'It is flowing'
          : 'Nothing flows yet'
      : `${tone === 'bad' ? 'It is not flowing' : 'It is flowing, but'}: ${first.name}`;
  return { lamps: [...lamps], open: first?.id ?? null, verdict, tone };
}

export function causeOf({ kind, text, fix, since, url }: Trouble): Cause {
  return { text, since, fix, action: { text: conditionTable[kind].action, ...ownPage(url) } };
}

function disabledCause({ id, name }: FlowWebhook): Cause {
  return {
    text: `The webhook ${name} is disabled: requests get a 410 response and are not stored.`,
    since: null,
    fix: '',
    action: { text: 'Enable', href: `/webhooks/${id}/switch`, role: 'operator', fields: { enabled: 'true' } },
  };
}

function toneOf(causes: readonly Cause[], isBad: boolean, works: boolean): Tone {
  if (causes.length > 0) return isBad ? 'bad' : 'warn';
  return works ? 'good' : '';
}

/** Requests of the last four quarters of an hour, of which one is running, and of the same hour of last week. */
function hourOf(counted: Counted | undefined, nowMs: number) {
  const since = new Date(quarterOf(nowMs) - (HOUR_QUARTERS - 1) * QUARTER_SECONDS * 1_000).toISOString();
  const sum = { accepted: 0, rejected: 0, limited: 0, refused: 0 };
  for (const quarter of counted?.quarters ?? [])
    if (quarter.at >= since)
      for (const name of ['accepted', 'rejected', 'limited', 'refused'] as const) sum[name] += quarter[name];
  const requests = sum.accepted + sum.rejected + sum.limited + sum.refused;
  return { ...sum, requests, usual: counted?.week_ago ?? 0 };
}

function refusedText(hours: readonly ReturnType<typeof hourOf>[]): string {
  const words = { rejected: 'rejected', limited: 'rate limited', refused: 'refused' } as const;
  return (Object.keys(words) as (keyof typeof words)[])
    .map((name) => [hours.reduce((sum, hour) => sum + hour[name], 0), words[name]] as const)
    .filter(([number]) => number > 0)
    .map(([number, word]) => `${count(number)} ${word}`)
    .join(', ');
}
