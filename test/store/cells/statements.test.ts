/**
 * The events, deliveries and dedupe keys of a webhook are in its cell, so a statement combines them only within one webhook, and says in which
 * cells it runs.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** Statements that name two of the tables, and how they stay within one webhook. A new one is judged, then added. */
const judged: Record<string, string> = {
  'store/queries/cells/cells.ts isEmpty': 'separate lookups, in one cell',
  'store/commit-probe.ts probeCommit': 'two inserts of the nil webhook, undone',
  'store/queries/events/events.ts findEvent': 'correlated by webhook_id',
  'store/queries/claims/lease.ts leaseText': 'joined by webhook_id',
  'store/queries/replays/events.ts deliverAgain': 'copies the webhook_id of the event',
  'store/queries/start.ts readFirstSteps': 'separate lookups',
  'store/queries/events/store-deduped.ts storeDeduped': 'joined by webhook_id',
  'receive/spool/store.ts storeSql': 'keys and events of the given rows, by webhook_id',
};

interface Part {
  /** `file declaration`. */
  name: string;
  text: string;
}

/** The top-level declarations of every source file, and every migration, without comments. */
function parts(): Part[] {
  const root = new URL('../../../server/', import.meta.url);
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => /\.(ts|sql)$/.test(path));
  return files.flatMap((file) => {
    const text = readFileSync(new URL(file, root), 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*(\/\/|--).*$/gm, '');
    if (file.endsWith('.sql')) return [{ name: file, text }];
    return text.split(/^(?=(?:export )?(?:async )?(?:function|const|class|interface)\b)/m).map((part) => ({
      name: `${file} ${/(?:function\*?|const|class|interface) (\w+)/.exec(part)?.[1] ?? ''}`,
      text: part,
    }));
  });
}

const tablesIn = (text: string) =>
  new Set(
    [...text.matchAll(/\b(?:from|join|into|update|using)\s+(events|deliveries|dedupe_keys)\b/g)].map(
      ([, name]) => name,
    ),
  );

test('every statement that names two of the tables is judged', () => {
  const found = parts().filter(({ text }) => tablesIn(text).size > 1);
  expect(found.map(({ name }) => name).sort()).toEqual(Object.keys(judged).sort());
});

/** `d.event_id = e.id`, the only way from a delivery or a key to its event. */
const EVENT_OF = /\b(\w+)\.event_id = (\w+)\.id\b|\b(\w+)\.id = (\w+)\.event_id\b/g;

test('a statement that goes from a delivery or a key to its event compares the webhook', () => {
  const ways = parts().flatMap(({ name, text }) =>
    [...text.matchAll(EVENT_OF)].map(([way, a, b, c, d]) => ({ name, text, way, pair: [a ?? c!, b ?? d!] })),
  );
  expect(ways.length).toBeGreaterThan(3);
  const without = ways.filter(({ text, pair: [one, other] }) => {
    const compares = (x: string, y: string) => text.includes(`${x}.webhook_id = ${y}.webhook_id`);
    return !compares(one!, other!) && !compares(other!, one!);
  });
  expect(without.map(({ name, way }) => `${name}: ${way}`)).toEqual([]);
});

/** Statements without a place: they run on the database of one cell, which the caller gives them. */
const ofOneCell: Record<string, string> = {
  'cli/bench/bench.ts measureCurve': 'the database of a bench, which has no cells',
  'operate/backup/restore.ts countLater': 'the database that is replaced',
  'receive/ingest/copy-lane.ts CopyLane': 'the connection of a cell',
  'receive/spool/moved-keys.ts claimSql': 'the connection of a cell',
  'receive/spool/store.ts storeSql': 'the connection of a cell',
  'store/commit-probe.ts probeCommit': 'the database of a cell',
  'store/retention/drop-partitions.ts removeDay': 'maintenance of a cell',
  'store/queries/agents/activity.ts waiting': 'part of statements with a place',
  'store/queries/alerts/condition-signs.ts dead': 'part of statements with a place',
  'store/queries/deliveries/lists.ts firstOfAgent': 'part of a statement with a place',
  'store/queries/deliveries/lists.ts recent': 'part of statements with a place',
  'store/queries/claims/room.ts due': 'part of statements with a place',
  'store/queries/claims/held.ts isFirst': 'part of statements with a place',
  'store/queries/claims/held.ts holdsAnother': 'part of a settlement',
  'store/queries/claims/lease.ts leaseText': 'part of a claim',
  'store/queries/claims/next.ts inTurn': 'part of a claim',
  'store/queries/claims/next.ts nextOfIds': 'part of a claim',
  'store/queries/claims/next.ts nextOfWebhook': 'part of a claim',
  'store/queries/claims/next.ts withDeliveries': 'part of a claim',
  'store/queries/cells/cells.ts isEmpty': 'the database of a cell',
  'store/queries/cells/cells.ts readCellFigures': 'the database of a cell',
  'store/queries/cells/citus.ts flatten': 'the schema of a cell',
  'store/queries/claims/room.ts underLease': 'part of statements with a place',
  'store/cells/move.ts readKeys': 'the database of a cell',
  'store/cells/move.ts writeKeys': 'the database of a cell',
  'store/queries/events/conditions.ts deliveredTo': 'part of a search',
  'store/queries/events/conditions.ts deliveryCondition': 'part of a search',
  'store/queries/events/events.ts newestOneByOne': 'part of another statement',
  'store/queries/events/events.ts newestTogether': 'part of another statement',
  'store/queries/claims/settle.ts settleText': 'part of a settlement',
  'store/queries/events/store-deduped.ts findDeduped': 'the database of a cell',
  'store/queries/alerts/undelivered.ts undelivered': 'part of other statements',
  'store/queries/alerts/undelivered.ts unfinished': 'part of other statements',
  'store/retention/retention.ts deleteExpiredKeys': 'maintenance of a cell',
  'store/retention/retention.ts delivered': 'maintenance of a cell',
  'store/retention/unsettled.ts deleteUnsettled': 'maintenance of a cell',
  'store/retention/unsettled.ts endUnsettled': 'maintenance of a cell',
  'store/retention/unsettled.ts unsettled': 'part of the two above',
};

test('every statement on these tables says in which cells it runs, or gets the database of one', () => {
  const tables =
    /\b(?:from|join|into|update|table) (?:events|deliveries|deliveries_live|deliveries_finished|dedupe_keys|delivery_actions|job_progress)\b/;
  const found = parts().filter(
    ({ name, text }) => !name.endsWith('.sql') && tables.test(text) && !/\bplace:/.test(text),
  );
  expect(found.map(({ name }) => name).sort()).toEqual(Object.keys(ofOneCell).sort());
});
