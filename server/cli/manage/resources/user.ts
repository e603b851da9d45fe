/** `weir user add|invite|invite-again|revoke-invitation|list|set-role|disable|enable|password|remove`. */
import { Argument, Option } from 'commander';
import { readLine } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import { type Role, roles } from '../../../model/users.ts';
import { readList } from '../lists.ts';
import { act, type OptionRow, type Row, row } from '../row.ts';

interface AddOptions {
  email: string;
  role: Role;
  name?: string;
  passwordStdin?: boolean;
}

const target = 'user';

const accountOptions: readonly (OptionRow | Option)[] = [
  new Option('--email <email>', 'email address for sign-in').makeOptionMandatory(),
  new Option('--role <role>', 'role of the user').choices(roles).makeOptionMandatory(),
  ['--name <name>', 'display name'],
];

export const rows: readonly Row[] = [
  row<AddOptions>()({
    name: 'add',
    database: 'unless_served',
    description: 'create a user; without --password-stdin a password is generated and printed, once',
    options: [...accountOptions, ['--password-stdin', 'read the password from standard input']],
    run: async (call, { options: { email, role, name, passwordStdin }, io }) => {
      const password = passwordStdin ? await readLine(io) : undefined;
      return call('createUser', { input: { email, role, name, password } });
    },
    text: ({ id, email, role, generated_password }) =>
      `User ${email} created with role ${role}.\n  ID        ${id}\n${passwordText(generated_password)}`,
  }),

  row<Omit<AddOptions, 'passwordStdin'>>()({
    name: 'invite',
    description: 'create a user who chooses the password with a link, which is printed once',
    options: accountOptions,
    run: (call, { options: { email, role, name } }) =>
      call('createUser', { input: { email, role, name, invite: true } }),
    text: ({ id, email, role, invitation_url }) =>
      `User ${email} created with role ${role}.\n  ID    ${id}\n${linkText(invitation_url!)}`,
  }),

  row()({
    name: 'invite-again',
    description: 'print a new invitation link of a user without a password; an earlier one ends',
    target,
    run: (call, { id }) => call('inviteUser', { id, input: {} }),
    text: ({ email, invitation_url }) => `${email}: invited again.\n${linkText(invitation_url)}`,
  }),

  act(target, 'revoke-invitation', 'end the invitation link of a user', 'revokeInvitation', 'invitation revoked'),

  row()({
    name: 'list',
    description: 'show all users',
    run: (call) => readList(call, 'listUsers'),
    list: {
      columns: ['ID', 'EMAIL', 'ROLE', 'STATE', 'LAST SIGN-IN'],
      cells: ['id', 'email', 'role', (one) => (one.disabled ? 'disabled' : 'active'), ['signed_in_at', 'never']],
      whenEmpty: () =>
        `No users yet. Create one: ${weirCommand()} user add --email ada@example.org --role administrator`,
    },
  }),

  row<{ passwordStdin?: boolean; revokeTokens: boolean }>()({
    name: 'password',
    alias: 'reset-password',
    description: 'set a new password, end all sessions and reset the sign-in throttle',
    target,
    database: 'unless_served',
    options: [
      [
        '--password-stdin',
        'read the password from standard input; without this option it is generated and printed, once',
      ],
      ['--revoke-tokens', 'revoke its API tokens too (the default)', undefined, true],
      ['--no-revoke-tokens', 'keep its API tokens'],
    ],
    run: async (call, { id, options: { passwordStdin, revokeTokens }, io }) => {
      const given = passwordStdin ? { password: await readLine(io) } : { generate_password: true };
      return call('updateUser', { id, input: { ...given, revoke_tokens: revokeTokens } });
    },
    text: ({ email, revoked_tokens, generated_password }, { options: { revokeTokens } }) =>
      `${email}: password changed, and all sessions ended.\n` +
      `${revokeTokens ? `  API tokens revoked: ${revoked_tokens}\n` : ''}${passwordText(generated_password)}`,
  }),

  row()({
    name: 'set-role',
    description: 'change the role of a user, from the next request on',
    target,
    argument: new Argument('<role>', 'the new role').choices(roles),
    run: (call, { id, argument: role }) => call('updateUser', { id, input: { role } }),
    text: ({ email, role, hosted }) =>
      `${email}: ${role}${hosted ? ' until the next sign-in, when the identity provider sets the role again' : ''}.\n`,
  }),

  act(target, 'disable', 'end all sessions and refuse the tokens of a user', 'updateUser', 'disabled', {
    disabled: true,
  }),
  act(target, 'enable', 'allow a user to sign in again', 'updateUser', 'enabled', { disabled: false }),
  act(target, 'remove', 'delete a user with all sessions and tokens', 'deleteUser', 'removed'),
];

function passwordText(generated: string | null): string {
  return generated === null ? '' : `  Password  ${generated}   (shown once)\n`;
}

function linkText(url: string): string {
  return `  Link  ${url}   (shown once; valid once and for 48 hours)\n`;
}
