/** The pages as a screen reader has them: the browser's own accessibility tree. */
import { beforeAll, describe, expect, test } from 'vitest';
import { openTab, startPagesApp, type Tab } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

interface TreeNode {
  role: string;
  name: string;
  level: number | null;
}

interface RawNode {
  nodeId: string;
  childIds?: string[];
  ignored: boolean;
  role?: { value: string };
  name?: { value: string };
  properties?: { name: string; value: { value: unknown } }[];
}

const app = shared(startPagesApp);
let tab: Tab;
const ids = { webhook: '', agent: '', event: '', rejection: '', delivery: '' };
beforeAll(async () => {
  const administrator = await addPerson(app, 'administrator');
  const webhook = await app.addWebhook({ name: 'shop' });
  const made = await administrator.api('POST', '/api/v1/agents', { name: 'packer', webhook_ids: [webhook.id] });
  const send = (secret: string | null) => fetch(webhook.url, signedRequest({ secret, body: '{"a":{"b":1}}' }));
  expect([(await send(webhook.secret)).status, (await send('another secret')).status]).toEqual([202, 403]);
  const first = async (list: string) =>
    (await until(async () => (await administrator.api('GET', `/api/v1/${list}`)).body.items[0])).id as string;
  Object.assign(ids, {
    webhook: webhook.id,
    agent: made.body.id,
    event: await first('events'),
    rejection: await first('rejections'),
    delivery: await first('deliveries'),
  });
  tab = await openTab(app, administrator);
});

/** The nodes in the order in which they are read. */
async function treeOf(path: string): Promise<TreeNode[]> {
  await tab.page.goto(path);
  const session = await tab.context.newCDPSession(tab.page);
  const { nodes } = (await session.send('Accessibility.getFullAXTree')) as { nodes: RawNode[] };
  await session.detach();
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const inOrder = (node: RawNode): RawNode[] => [
    node,
    ...(node.childIds ?? []).flatMap((id) => (byId.has(id) ? inOrder(byId.get(id)!) : [])),
  ];
  return inOrder(nodes[0]!)
    .filter(({ ignored }) => !ignored)
    .map(({ role, name, properties }) => ({
      role: role?.value ?? '',
      name: (name?.value ?? '').trim(),
      level: Number(properties?.find((one) => one.name === 'level')?.value.value ?? 0) || null,
    }));
}

const named = new Set([
  'link',
  'button',
  'textbox',
  'searchbox',
  'combobox',
  'checkbox',
  'radio',
  'image',
  'img',
  'region',
  'dialog',
]);

describe.each([
  ['the overview', '/', 'Overview'],
  ['the list of events', '/events', 'Events'],
  ['an event', '/events/:event', ''],
  ['the list of rejections', '/rejections', 'Rejections'],
  ['a rejection', '/rejections/:rejection', ''],
  ['the list of deliveries', '/deliveries', 'Deliveries'],
  ['a delivery', '/deliveries/:delivery', ''],
  ['the list of webhooks', '/webhooks', 'Webhooks'],
  ['a webhook', '/webhooks/:webhook', 'shop'],
  ['the form of a webhook', '/webhooks/new', 'New webhook'],
  ['an agent', '/agents/:agent', 'packer'],
  ['status', '/status', 'Status'],
])('%s', (_, route, heading) => {
  let tree: TreeNode[];
  beforeAll(async () => {
    tree = await treeOf(route.replace(/:(\w+)/, (_match, kind: keyof typeof ids) => ids[kind]));
  });
  const all = (role: string) => tree.filter((node) => node.role === role);

  test('has one main part, a banner, and the main navigation', () => {
    expect([all('main').length, all('banner').length]).toEqual([1, 1]);
    expect(all('navigation').map(({ name }) => name)).toContain('Main');
  });

  test('has one title, and headings that leave out no level', () => {
    const headings = all('heading');
    expect(headings.filter(({ level }) => level === 1).length).toBe(1);
    expect(headings.find(({ level }) => level === 1)!.name).toContain(heading);
    const levels = headings.map(({ level }) => level!);
    const jumps = headings.filter((_heading, i) => i > 0 && levels[i]! > levels[i - 1]! + 1);
    expect(jumps).toEqual([]);
  });

  test('names everything that can be operated or that is a part of its own', () => {
    expect(tree.filter(({ role }) => role === 'link').length).toBeGreaterThan(5);
    expect(tree.filter(({ role, name }) => named.has(role) && name === '')).toEqual([]);
  });

  test('names the header of each column of its tables', () => {
    expect(all('columnheader').filter(({ name }) => name === '')).toEqual([]);
  });
});
