import { describe, expect, test } from 'vitest';
import { combinedClaims, identityOf } from '../../../../server/manage/auth/oidc/identify.ts';

const identity = (claims: object, roleClaim = 'weir_role') =>
  identityOf('https://id.example', { sub: 'olga', ...claims }, roleClaim);

describe('the role claim', () => {
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
