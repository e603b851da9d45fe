import { describe, expect, test } from 'vitest';
import { combinedClaims, identityOf } from '../../../../server/manage/auth/oidc/identify.ts';

const identity = (claims: object, roleClaim = 'weir_role') =>
  identityOf('https://id.example', { sub: 'olga', ...claims }, roleClaim);

describe('the role claim', () => {
  test.each<[string, unknown, string]>([
    ['a name', 'viewer', 'viewer'],
    ['a list of names, of which the highest counts', ['viewer', 'operator'], 'operator'],
    ['in any order', ['administrator', 'viewer'], 'administrator'],
    ['among names of other services', ['offline_access', 7, null, 'operator'], 'operator'],
  ])('%s', (_, weir_role, role) => expect(identity({ weir_role })!.role).toBe(role));

  test.each<[string, unknown]>([
    ['no claim', undefined],
    ['a name that Weir does not know', 'root'],
    ['another case', 'Administrator'],
    ['an empty list', []],
    ['a list in a list', [['administrator']]],
    ['an object', { administrator: true }],
    ['names in one text', 'viewer operator'],
  ])('%s is not a role', (_, weir_role) => expect(identity({ weir_role })!.role).toBeNull());

  test.each<[string, object, string]>([
    ['realm_access.roles', { realm_access: { roles: ['viewer'] } }, 'dots lead into objects'],
    ['resource_access.weir.roles', { resource_access: { weir: { roles: ['viewer'] } } }, 'as deep as it goes'],
    ['https://weir.example/role', { 'https://weir.example/role': 'viewer' }, 'a name may hold dots itself'],
    ['a.b', { 'a.b': 'viewer', a: { b: 'administrator' } }, 'the name itself comes before the way'],
  ])('%s of %j: %s', (roleClaim, claims) => {
    expect(identity(claims, roleClaim)!.role).toBe('viewer');
  });

  test.each<[string, object]>([
    ['realm_access.roles', { realm_access: null }],
    ['realm_access.roles', { realm_access: 'viewer' }],
    ['realm_access.roles', {}],
    ['constructor.name', {}],
    ['__proto__.role', {}],
    ['a.length', { a: ['viewer'] }],
  ])('%s of %j is refused', (roleClaim, claims) => {
    expect(identity(claims, roleClaim)!.role).toBeNull();
  });
});

test.each([[undefined], [''], [7], ['a\u0000'], ['ä'], ['a'.repeat(256)]])('the subject %j is refused', (sub) => {
  expect(identity({ sub })).toBeNull();
});

test.each([
  ['none', undefined],
  ['no address', 'nobody'],
  ['a control character', 'a\u0000b@example.org'],
  ['one that is too long', `${'a'.repeat(250)}@example.org`],
])('an email that is %s is not an address', (_, email) => {
  expect(identity({ email, email_verified: true })).toMatchObject({ email: null, emailVerified: false });
});

test.each([
  [true, true],
  ['true', true],
  [false, false],
  [undefined, false],
  ['yes', false],
])('an email with email_verified %j: verified %j', (email_verified, emailVerified) => {
  expect(identity({ email: 'olga@example.org', email_verified })).toMatchObject({ emailVerified });
});

test.each([
  [{ name: ' Olga  O. ' }, 'Olga  O.'],
  [{ name: '\u0000\u202eOlga\ud800' }, 'Olga'],
  [{ name: '', preferred_username: 'olga' }, 'olga'],
  [{ name: 7 }, ''],
  [{ name: '😀'.repeat(201) }, '😀'.repeat(200)],
])('%j is displayed as %j', (claims, name) => {
  expect(identity(claims)!.name).toBe(name);
});

const [olga, root] = ['olga@example.org', 'root@example.org'];
const verified = { email: olga, email_verified: true };
const other = { email: root, email_verified: false };
const onlyVerified = { email_verified: true };
test.each([
  ['the ID token has both', verified, other, olga, true],
  ['only the ID token has an address, and the userinfo vouches for its own', { email: root }, verified, root, false],
  ['the ID token has no address, but says that one is verified', onlyVerified, other, root, false],
  ['the email of the ID token is not an address', { ...onlyVerified, email: 'olga' }, other, root, false],
  ['the ID token has neither', {}, verified, olga, true],
])('when %s, email and verification come from the same document', (_when, idToken, userInfo, email, emailVerified) => {
  const claims = combinedClaims({ sub: 'olga', ...idToken }, { sub: 'olga', weir_role: 'viewer', ...userInfo });
  expect(identityOf('https://id.example', claims, 'weir_role')).toMatchObject({ email, emailVerified, role: 'viewer' });
});
