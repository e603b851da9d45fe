/** `weir token add|list|revoke`. */
import { InvalidArgumentError, Option } from 'commander';
import { CommandError } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import { type Role, roles } from '../../../model/users.ts';
import { type Call, notFound } from '../call.ts';
import { readList, usersOf } from '../lists.ts';
import { act, type Given, type Row, row } from '../row.ts';

interface AddOptions {
  email?: string;
  name: string;
  role?: Role;
  expiresDays?: number | 'never';
}

export const rows: readonly Row[] = [
  row<AddOptions>()({
    name: 'add',
    description: 'create a token and print it, once',
    options: [
      ['--email <email>', 'user that owns it; over HTTP it is the user of the token of the call', checkEmail],
      new Option('--role <role>', "at most the user's role; default: the user's role").choices(roles),
      ['--expires-days <days|never>', 'validity; default: 90', expiryDays],
    ],
    required: [['--name <name>', 'what it is for']],
    run: async (call, given) => {
      const { name, role, expiresDays } = given.options;
      const user_id = await ownerOf(call, given);
      const expires_in_days = expiresDays === 'never' ? null : expiresDays;
      return call('createToken', { input: { name, role, expires_in_days, user_id } });
    },
    text: ({ id, name, role, user_email, expires_at, token }) =>
      `Token ${name} created for ${user_email}.\n  ID       ${id}\n  Role     ${role}\n` +
      `  Expires  ${expires_at ?? 'never'}\n  Token    ${token}   (shown once)\n`,
  }),

  row<{ email?: string; mine?: true; agent?: string }>()({
    name: 'list',
    description: 'show all tokens, newest first',
    options: [
      ['--email <email>', 'of this user', checkEmail],
      ['--agent <id>', 'only those of OAuth clients that act as this agent'],
      ['--mine', 'only those of the user of the token of the call; for users who are not administrators'],
    ],
    run: async (call, { options: { email, mine, agent: agent_id }, connection }) => {
      if (agent_id !== undefined) return readList(call, 'listTokens', { agent_id });
      if (mine && connection.remote === null) throw new CommandError('--mine is for --url: a command has no user', 2);
      if (mine) return readList(call, 'listTokens');
      if (email === undefined) return readList(call, 'listTokens', { all: true });
      return readList(call, 'listTokens', { user_id: (await activeUser(call, email)).id });
    },
    list: {
      columns: ['ID', 'USER', 'NAME', 'KIND', 'ROLE', 'STATE', 'EXPIRES', 'LAST USED'],
      cells: ['id', 'user_email', 'name', kindOf, 'role', 'state', ['expires_at', 'never'], ['last_used_at', 'never']],
      whenEmpty: () => `No tokens yet. Create one: ${weirCommand()} token add --email E --name ci`,
    },
  }),

  act(
    { argument: 'id', description: 'id of the token' },
    'revoke',
    'revoke a token permanently, and the tokens created with it',
    'revokeToken',
    'revoked',
  ),
];

function kindOf({ client_id, agent_id }: { client_id: string | null; agent_id: string | null }): string {
  if (client_id === null) return 'API';
  return agent_id === null ? 'OAuth' : 'OAuth, agent';
}

/** The id of the user of --email; undefined over HTTP, where a token belongs to the user who creates it. */
async function ownerOf(call: Call, { options: { email }, connection }: Given<AddOptions>) {
  if (connection.remote === null) {
    if (email === undefined) throw new CommandError('give the user that owns the token: --email', 2);
    return (await activeUser(call, email)).id;
  }
  const own = email === undefined ? null : (await call('showAccount')).email;
  if (own !== null && own !== email!.toLowerCase())
    throw new CommandError(
      `over HTTP a token belongs to the user who creates it, ${own}; for another user run the command on the machine of Weir`,
      2,
    );
  return undefined;
}

async function activeUser(call: Call, email: string) {
  const [user] = await usersOf(call, email);
  if (user === undefined || user.disabled) throw notFound('user_unknown', `no active user has the email ${email}`);
  return user;
}

function expiryDays(text: string): number | 'never' {
  if (text === 'never') return text;
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('a whole number of days is needed, or never.');
  return Number(text);
}

function checkEmail(text: string): string {
  if (!/^[^\s@]+@[^\s@]+$/.test(text)) throw new InvalidArgumentError('an email address is needed.');
  return text;
}
