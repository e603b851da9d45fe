import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import { weir as run, weirJson } from '../../../helpers/command.ts';
import { temporaryDirectory } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';

const CREDENTIAL = /^wa_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/;
const app = shared(startTestApp);
let webhookId: string;

beforeAll(async () => {
  webhookId = (await weirJson(app, 'webhook', 'add', '--name', 'orders')).id;
});

const weir = (...args: string[]) => run(app, 'agent', ...args);
const json = (...args: string[]) => weirJson(app, 'agent', ...args);
const agents = async () => (await json('list')).items as Record<string, unknown>[];

describe('agent add', () => {
  test('writes the credential to a new file that others cannot read', async () => {
    const file = join(temporaryDirectory(), 'worker.credential');
    const add = (name: string) => weir('add', '--name', name, '--credential-file', file);
    const { code, out } = await add('filed');
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(`\n  Credential  in ${file}\n[\\s\\S]* --credential-file ${file}\n$`),
    ]);
    expect(out).not.toContain('wa_');
    expect([readFileSync(file, 'utf8').trim(), statSync(file).mode & 0o777]).toEqual([
      expect.stringMatching(CREDENTIAL),
      0o600,
    ]);
    expect(await add('second')).toMatchObject({ code: 1, err: `weir: ${file} exists already: name another file\n` });
    const refused = `${file}.2`;
    expect((await weir('add', '--name', 'filed', '--credential-file', refused)).code).toBe(1);
    expect(existsSync(refused)).toBe(false);
    expect((await agents()).map(({ name }) => name)).not.toContain('second');
  });

  test('prints the credential and the next steps', async () => {
    const { code, out } = await weir('add', '--name', 'reader');
    expect(code).toBe(0);
    expect(out).toMatch(
      /^Agent reader created\.\n {2}ID {10}[0-9a-f-]{36}\n {2}Credential {2}wa_\w+ {3}\(shown once\)\n/,
    );
    expect(out).toMatch(
      /: {2}npx http:\/\/127\.0\.0\.1:8080\/client-\S+\.tgz consume http:\/\/127\.0\.0\.1:8080 --credential-file FILE\n$/,
    );
  });
});

describe('agent', () => {
  test('rotate prints a new credential, once', async () => {
    const { id } = await json('add', '--name', randomUUID());
    expect((await weir('rotate', String(id).toUpperCase())).out).toMatch(
      new RegExp(
        `^${id}: credential rotated; the old one and all sessions are invalid\\.\n {2}Credential {2}wa_\\w+ {3}\\(shown once\\)\n$`,
      ),
    );
  });

  test('rotate --overlap keeps the old one for a while, and show has it', async () => {
    const { id } = await json('add', '--name', randomUUID());
    const { out } = await weir('rotate', String(id), '--overlap', '3600');
    const [, until] = /: credential rotated; the old one stays valid until (\S+Z)\.\n/.exec(out)!;
    expect((await weir('show', String(id))).out).toContain(`Old credential  until ${until}, last used never\n`);
    const { code, err } = await weir('rotate', String(id), '--overlap', '1h');
    expect([code, err]).toEqual([2, expect.stringContaining('--overlap')]);
  });

  test('subscribe adds webhooks and unsubscribe removes them', async () => {
    const { id } = await json('add', '--name', randomUUID());
    const other = (await weirJson(app, 'webhook', 'add', '--name', 'b')).id as string;
    const listed = async () => (await json('webhooks', String(id))).items as Record<string, unknown>[];
    const ids = async () => (await listed()).map(({ webhook_id }) => webhook_id).sort();
    const both = [webhookId, other].sort();
    expect((await weir('subscribe', String(id), '--webhook', webhookId, '--webhook', other)).out).toBe(
      `${id}: subscribed.\n`,
    );
    expect(await ids()).toEqual(both);
    expect((await weir('unsubscribe', String(id), '--webhook', webhookId)).out).toBe(`${id}: unsubscribed.\n`);
    expect(await ids()).toEqual([other]);
    await json('subscribe', String(id), '--webhook', other, '--filter', 'bytes > 1');
    const filter = async () => (await listed()).map(({ webhook_id, filter }) => [webhook_id, filter]);
    expect(await filter()).toEqual([[other, 'bytes > 1']]);
    await weir('subscribe', String(id), '--webhook', other);
    expect(await filter()).toEqual([[other, 'bytes > 1']]);
    await weir('subscribe', String(id), '--webhook', other, '--filter', '');
    expect(await filter()).toEqual([[other, null]]);
    const unknown = ['--webhook', webhookId, '--webhook', randomUUID()];
    for (const more of [[], ['--filter', 'bytes > 2']]) {
      const { code, err } = await weir('subscribe', String(id), ...unknown, ...more);
      expect([code, err]).toEqual([1, expect.stringMatching(/no webhook has the id .*; see: weir webhook list/)]);
    }
    // All or nothing: the webhook that exists is not subscribed either.
    expect(await filter()).toEqual([[other, null]]);
  });

  test('list counts filters, and show prints them, without --json', async () => {
    const name = randomUUID();
    const { id } = await json('add', '--name', name, '--webhook', webhookId, '--max-leased', '7');
    expect((await weir('list')).out).toMatch(/^ID +NAME +STATE +WEBHOOKS +FILTERS +MAX LEASED +LAST SEEN +CREATED\n/);
    const line = async () => (await weir('list')).out.split('\n').find((row) => row.startsWith(String(id)));
    expect(await line()).toMatch(new RegExp(`${name} +active +1 +0 +7 +never +\\d{4}-`));
    await weir('subscribe', String(id), '--webhook', webhookId, '--filter', 'bytes > 1');
    expect(await line()).toMatch(new RegExp(`${name} +active +1 +1 +7 +never`));
    const { code, out } = await weir('show', String(id));
    expect(code).toBe(0);
    expect(out).toMatch(
      new RegExp(`^Name +${name}\nState +active\nMax leased +7\nWebhooks +1, 1 with a filter\nLast seen +never\n`),
    );
    expect(out).toMatch(new RegExp(`\n${webhookId} +orders +0 +bytes > 1\n$`));
    expect((await weir('webhooks', String(id), '--filtered')).out).toMatch(
      new RegExp(`\\n${webhookId} +orders +bytes > 1 +none\n$`),
    );
    expect((await weir('webhooks', String(id), '--filtered')).out.split('\n')).toHaveLength(3);
  });
});
