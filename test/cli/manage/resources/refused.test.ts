/** Commands that are refused: the exit code, and a reason that names the option or the id and where to read on. Nothing changes. */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeInstallation } from '../../../helpers/command.ts';
import { temporaryDirectory } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';

const installation = shared(async () => {
  const made = await makeInstallation();
  const add = (...args: string[]) => made.weir([...args, '--json']);
  await add('user', 'add', '--email', 'root@example.org', '--role', 'administrator');
  await add('user', 'add', '--email', 'operator@example.org', '--role', 'operator');
  await add('webhook', 'add', '--name', 'shop');
  await add('agent', 'add', '--name', 'worker');
  await add('webhook', 'add', '--name', 'gone');
  await add('webhook', 'remove', 'gone');
  return made;
});

const ID = randomUUID();
/** A text from the body needs a scheme that verifies it. */
const answerFile = join(temporaryDirectory(), 'answer.json');
writeFileSync(answerFile, '{"status":200,"content_type":"text/plain","body_from":"/text"}');
const LONG = 'x'.repeat(201);
const no = (what: string, id: string, list: string) => new RegExp(`no ${what} ${id}; see: weir ${list} list`);

/** Words, without blanks in them; the reason; and standard input. */
type Row = [words: string, reason: RegExp, stdin?: string];

/** Exit code 2. */
const usage: Row[] = [
  ['webhook add', /--name/],
  ['webhook add --name=', /name: Give 1 to 200 characters\./],
  ['webhook add --name a --secret s --generate-secret', /--generate-secret/],
  ['webhook add --name a --secret s --secret-stdin', /--secret/],
  ['webhook add --name a --secret-stdin', /secret/],
  ['webhook add --name a --signature-header X:Y', /--signature-header: Give the name of a header/],
  [
    'webhook add --name a --rate-limit many',
    /^error: option '--rate-limit .* is invalid. Give a whole number.*\nSee: /,
  ],
  ['webhook add --name a --rate-limit 0', /from 1 to/],
  ['webhook add --name a --retention-days 31', /^weir: --retention-days: Give at most 30: .* RETENTION_DAYS/],
  ['webhook add --name a --scheme gitub --secret s', /^weir: --scheme: Give .* See: weir scheme list\n$/],
  ['webhook add --name a --colour red', /--colour/],
  ['webhook update shop', /nothing to change/],
  ['webhook update shop --retention-days 31', /--retention-days: Give at most 30/],
  ['webhook update shop --scheme discord', /public_key|public key/],
  ['webhook update shop --enabled no', /--enabled/],
  [`webhook update shop --answer-file ${answerFile}`, /^weir: --answer-file: /],
  ['webhook disable', /^error: /],
  ['webhook rotate a b', /^error: /],
  ['webhook frobnicate', /^error: /],
  [`webhook rotate ${ID} --overlap-seconds -1`, /^error: /],
  ['agent add', /--name/],
  [`agent add --name ${LONG}`, /name: Give 1 to 200 characters\./],
  [`agent add --name a --webhook ${ID}`, /No webhook has the id .*weir webhook list/],
  ['agent add --name a --colour red', /--colour/],
  ['agent rotate', /^error: /],
  [`agent rotate ${ID} --overlap 1h`, /--overlap/],
  ['agent frobnicate', /^error: /],
  ['agent subscribe worker --webhook shop --order-by customer', /^weir: --order-by: Give /],
  ['token add --email a@example.org', /--name/],
  ['token add --name a', /--email/],
  ['token add --email me --name a', /email address/],
  ['token add --email a@example.org --name a --role root', /viewer, operator, administrator/],
  ['token add --email a@example.org --name a --expires-days x', /whole number/],
  ['token add --email operator@example.org --name a --expires-days 3651', /from 1 to 3650/],
  ['token add --email operator@example.org --name \x1b[2J', /name: Control characters/],
  ['token add --email operator@example.org --name a --role administrator', /is operator: .* cannot have a higher one/],
  ['token revoke', /^error: /],
  ['token revoke nonsense', /nonsense/],
  ['token frobnicate', /^error: /],
  ['user add --role viewer', /--email/],
  ['user add --email new@example.org', /--role/],
  ['user add --email new@example.org --role root', /administrator/],
  ['user add --email new --role viewer', /email: Give an email address/],
  [`user add --email new@example.org --role viewer --name ${LONG}`, /name: /],
  ['user add --email new@example.org --role viewer --password-stdin', /12 to 200/, 'short'],
  ['user add --email new@example.org --role viewer --password-stdin', /email/, 'new@example.org'],
  ['user disable', /^error: /],
  ['user set-role root@example.org', /^error: /],
  ['user set-role root@example.org root', /^error: /],
  ['user frobnicate', /^error: /],
  ['audit list --action Agent!', /--action/],
  ['audit list --actor me', /--actor/],
  ['audit list --target 1', /--target/],
  ['audit list --from yesterday', /--from/],
  ['audit list --to 2026-13-01', /--to/],
  ['audit list --limit 0', /--limit/],
  ['audit verify --head abc', /--head/],
  ...['list', 'export', 'replay'].flatMap((verb): Row[] => [
    [`event ${verb} --from yesterday`, /--from/],
    [`event ${verb} --source nowhere`, /--source: Give an address or a network/],
    [`event ${verb} --content-type é`, /--content-type: Give at most 200 printable/],
    [`event ${verb} --delivery-state lost`, /--delivery-state/],
    [`event ${verb} --search ${LONG}`, /--search: /],
  ]),
  ['delivery dismiss', /./],
  [`delivery replay ${ID} --all-agents`, /./],
  ['delivery replay --all-agents --state done', /./],
  ['delivery replay --all-agents --state filtered', /./],
];

/** Exit code 1. */
const failures: Row[] = [
  ...['show', 'update --description b', 'enable', 'disable', 'rotate', 'remove'].map(
    (verb): Row => [`webhook ${verb} ${ID}`, no('webhook has the id', ID, 'webhook')],
  ),
  ['agent add --name a --webhook gone', no('webhook has the id or name', 'gone', 'webhook')],
  ...['revoke', 'rotate'].map((verb): Row => [`agent ${verb} ${ID}`, no('active agent has the id', ID, 'agent')]),
  [`token revoke ${ID}`, no('token has the id', ID, 'token')],
  ['token list --email new@example.org', /new@example\.org/],
  ['user add --email ROOT@example.org --role viewer', /another user has this email address; see: weir user list/],
  ...['disable', 'remove', 'set-role %s operator'].map((verb): Row => {
    const words = verb.includes('%s') ? verb.replace('%s', 'root@example.org') : `${verb} root@example.org`;
    return [`user ${words}`, /^weir: This is the last active administrator: give another user the role administrator/];
  }),
  ...['disable new', 'enable new', 'remove new', 'password new', 'set-role new viewer'].map(
    (words): Row => [`user ${words}`, no('user has the id or email', 'new', 'user')],
  ),
  ...['show', 'recheck', 'accept'].flatMap((verb) =>
    ['01900000-0000-7000-8000-000000000000', 'ffffffff-ffff-7000-8000-000000000000'].map(
      (id): Row => [`rejection ${verb} ${id}`, no('rejection has the id', id, 'rejection')],
    ),
  ),
  [`delivery show ${ID}`, /no delivery has the id/],
  [`delivery undo ${ID}`, /No replay or dismissal of the last 24 hours/],
];

const rows = [usage, failures].flatMap((list, i) => list.map((row): [code: number, ...Row] => [2 - i, ...row]));

test.each(rows)('exit code %i: weir %s', async (expected, words, reason, stdin = '') => {
  const changes = async () => (await installation.weir(['audit', 'list', '--limit', '1', '--json'])).out;
  const before = await changes();
  const { code, out, err } = await installation.weir(words.split(' '), stdin);
  expect([code, out]).toEqual([expected, '']);
  expect(err).toMatch(reason);
  expect(await changes()).toBe(before);
});
