/** What holds between responses to senders and stored events. */
import { groups, type Indexed, type Invariant } from '../checker.ts';
import type { SentRequest } from '../history.ts';

/** A request as the text of a violation. */
const shown = ({ webhook, key, parts, status, ids, sentAt, answeredAt }: SentRequest, { history }: Indexed) =>
  `${webhook} ${key} ${parts[0]?.mark}: ${status ?? 'no response'} ${ids[0] ?? ''} at ${history.at(sentAt)} to ${history.at(answeredAt)}`;

const storedOf = ({ parts }: SentRequest, { eventsByMark }: Indexed) =>
  parts.flatMap(({ mark }) => eventsByMark.get(mark) ?? []);

/** Requests with one key, of the webhooks that deduplicate. */
function* keysOf(seen: Indexed): Iterable<[key: string, SentRequest[]]> {
  const deduplicating = seen.history.requests.filter(({ webhook }) => seen.webhookByName.get(webhook)!.keyHeader);
  yield* groups(deduplicating, ({ webhook, key }) => `${webhook} ${key}`);
}

/** An invariant of each request. */
const ofRequests = (violated: (sent: SentRequest, seen: Indexed) => boolean): Invariant =>
  function* (seen) {
    for (const sent of seen.history.requests) if (violated(sent, seen)) yield shown(sent, seen);
  };

export const eventInvariants: Readonly<Record<string, Invariant>> = {
  *'an id belongs to one event'({ stored }) {
    for (const [id, events] of groups(stored.events, (event) => event.id)) if (events.length > 1) yield id;
  },

  /** A repetition with its key may be stored in its place, see "a key is stored once". */
  'a request that was answered 202 is stored': ofRequests((sent, seen) => {
    if (sent.status !== 202 || seen.webhookByName.get(sent.webhook)!.keyHeader) return false;
    if (sent.expiresAt < Date.now() + seen.history.offsetMs) return false;
    return storedOf(sent, seen).length < sent.parts.length;
  }),

  'retention removes what is old': ofRequests((sent, seen) => {
    const isOld = seen.history.retentions.some((at) => sent.expiresAt < at);
    return isOld && storedOf(sent, seen).length > 0;
  }),

  'a request is stored once': ofRequests((sent, { eventsByMark }) =>
    sent.parts.some(({ mark }) => (eventsByMark.get(mark)?.length ?? 0) > 1),
  ),

  *'a key is stored once, and not lost'(seen) {
    for (const [key, requests] of keysOf(seen)) {
      const events = requests.flatMap((sent) => storedOf(sent, seen));
      const answered = requests.some(({ status }) => status === 202 || status === 200);
      const isWrong = events.length > 1 || (answered && events.length === 0);
      if (isWrong) yield `${key} has ${events.length} events; ${requests.map((sent) => shown(sent, seen)).join('; ')}`;
      // In a spool a key is compared when its event is stored.
      if (seen.configuration.spool || events.length !== 1) continue;
      for (const sent of requests)
        if (sent.status === 200 && sent.ids[0] !== events[0]!.id) yield `another id: ${shown(sent, seen)}`;
    }
  },

  'the id of a response is that of the event': ofRequests((sent, { eventsByMark }) =>
    sent.parts.some(({ mark }, at) => {
      const [event] = eventsByMark.get(mark) ?? [];
      return sent.status === 202 && event !== undefined && event.id !== sent.ids[at];
    }),
  ),

  'a batch is stored as a whole': ofRequests((sent, seen) => {
    const { length } = storedOf(sent, seen);
    return length > 0 && length < sent.parts.length;
  }),

  'a refused request is not stored': ofRequests((sent, seen) => {
    const refused = sent.status !== null && (sent.status === 200 || (sent.status >= 400 && sent.status < 500));
    return refused && storedOf(sent, seen).length > 0;
  }),

  'a forged request is refused': ofRequests(({ forged, status }) => forged && status === 202),

  *'an event has the bytes of its request'({ stored, requestByMark, webhookByName }) {
    for (const event of stored.events) {
      const sent = requestByMark.get(event.mark);
      if (sent === undefined) yield `an event of no request: ${event.id} ${event.mark}`;
      else if (sent.parts.find(({ mark }) => mark === event.mark)!.hash !== event.hash) yield `body of ${event.id}`;
      else if (webhookByName.get(sent.webhook)!.id !== event.webhook_id) yield `webhook of ${event.id}`;
      else if (!event.headers.split('\n').some((line) => line.toLowerCase() === `x-marker: ${sent.marker}`))
        yield `headers of ${event.id}: ${event.headers}`;
      else if (/hub-signature|^authorization|stripe-signature/im.test(event.headers))
        yield `a stored signature: ${event.id}: ${event.headers}`;
    }
  },

  /** Also with a spool. @see scaling.md, the spool */
  *'received_at has the order of arrival'(seen) {
    const { history, eventsByMark, configuration } = seen;
    if (configuration.skewMs !== 0) return;
    const timesOf = (sent: SentRequest) => {
      const times = sent.parts.flatMap(({ mark }) => eventsByMark.get(mark) ?? []).map((event) => event.receivedAtMs);
      return [Math.min(...times), Math.max(...times)] as const;
    };
    const answered = history.requests.filter((sent) => sent.status === 202).sort((a, b) => a.answeredAt - b.answeredAt);
    let before = 0;
    let newest = 0;
    for (const sent of [...answered].sort((a, b) => a.sentAt - b.sentAt)) {
      for (; before < answered.length && answered[before]!.answeredAt < sent.sentAt; before++)
        newest = Math.max(newest, timesOf(answered[before]!)[1]);
      if (timesOf(sent)[0] < newest) yield `${shown(sent, seen)} received before ${newest}`;
    }
  },
};
