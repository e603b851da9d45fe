import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { Row } from '../../server/cli/manage/row.ts';
import { operationRoutes } from '../../server/manage/api/routes.ts';
import { leaseTools } from '../../server/manage/mcp/lease-tools.ts';
import { managementTools } from '../../server/manage/mcp/management-tools.ts';
import { confirmationOf, confirmations } from '../../server/model/confirmations.ts';

const operations: readonly string[] = operationRoutes.map(([, , name]) => name);
const confirmed = Object.keys(confirmations);

test('every operation that removes, revokes, rotates, disables or dismisses is in the table', () => {
  const stopping = operations.filter((name) => /^(remove|revoke|delete|rotate|disable|dismiss|drain)[A-Z]/.test(name));
  expect(stopping.filter((name) => !confirmed.includes(name))).toEqual([]);
  expect(confirmed.filter((name) => !operations.includes(name))).toEqual([]);
});

test.each([
  ['updateWebhook', { enabled: false }, 'click'],
  ['updateWebhook', { enabled: true }, undefined],
  ['updateWebhook', { name: 'renamed' }, undefined],
  ['updateUser', { disabled: true }, 'click'],
  ['updateUser', { role: 'viewer' }, undefined],
  ['settleUndelivered', { to_agent_id: null }, 'click'],
  ['settleUndelivered', { to_agent_id: '01a1ffb6-1f30-7b8e-9d54-2c6a91e07b33' }, undefined],
  ['deleteWebhook', undefined, 'name'],
  ['dismissDelivery', undefined, undefined],
  ['createWebhook', {}, undefined],
  ['constructor', {}, undefined],
])('%s with %j is confirmed by %s', (operation, input, by) => {
  expect(confirmationOf(operation, input)?.by).toBe(by);
});

/** The operations of the table that a text names in calls. */
const calledIn = (text: string) =>
  confirmed.filter((name) => new RegExp(`["'\`]${name}["'\`]`).test(text) && name !== 'replayEvent');

const resources = fileURLToPath(new URL('../../server/cli/manage/resources', import.meta.url));

test('every command that calls one has --yes', async () => {
  const modules = readdirSync(resources).map(
    (name) => import(join(resources, name)) as Promise<Record<string, unknown>>,
  );
  // `weir apply`, which asks about all deletions together, has no name of its own.
  const rows = (await Promise.all(modules))
    .flatMap((module) => Object.values(module).filter(Array.isArray).flat() as Row[])
    // What act() makes asks by this table.
    .filter(({ name, run }) => name !== '' && !String(run).includes('call(operation'));
  const inputs = /enabled: false|disabled: true|enabled:!1|disabled:!0/;
  const asking = rows.filter(({ run }) =>
    calledIn(String(run)).some((name) => !name.startsWith('update') || inputs.test(String(run))),
  );
  expect(asking.map(({ name }) => name).sort()).toEqual(
    rows
      .filter(({ asks }) => asks !== undefined)
      .map(({ name }) => name)
      .sort(),
  );
  expect(asking.length).toBeGreaterThan(4);
});

test('a tool for AI agents that runs one says that it is destructive', () => {
  for (const { name, hints, run } of [...managementTools, ...leaseTools])
    for (const operation of confirmed)
      if (String(run).includes(`'${operation}'`) || String(run).includes(`"${operation}"`))
        expect([name, hints.destructive]).toEqual([name, operation]);
});

test('every page that calls one is known to test/pages/forms/confirmed.test.ts', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const sources = readdirSync(join(root, 'server/pages'), { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.ts'),
  );
  const called = new Set(sources.flatMap((path) => calledIn(readFileSync(join(root, 'server/pages', path), 'utf8'))));
  const tested = readFileSync(join(root, 'test/pages/forms/confirmed.test.ts'), 'utf8');
  expect([...called].filter((name) => !tested.includes(`'${name}'`))).toEqual(['dismissDelivery']);
});
