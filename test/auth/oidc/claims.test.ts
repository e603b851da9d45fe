import { describe, expect, test } from 'vitest';
import { identityOf } from '../../../server/auth/oidc/claims.ts';

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
  ])('%s of %j is none', (roleClaim, claims) => {
    expect(identity(claims, roleClaim)!.role).toBeNull();
  });
});

test.each([[undefined], [''], [7], ['a\u0000'], ['ä'], ['a'.repeat(256)]])('the subject %j is none', (sub) => {
  expect(identity({ sub })).toBeNull();
});

test.each([
  [{ name: ' Olga  O. ' }, 'Olga  O.'],
  [{ name: '\u0000\u202eOlga\ud800' }, 'Olga'],
  [{ name: '', preferred_username: 'olga' }, 'olga'],
  [{ name: 7 }, ''],
  [{ name: '😀'.repeat(201) }, '😀'.repeat(200)],
])('%j is shown as %j', (claims, name) => {
  expect(identity(claims)!.name).toBe(name);
});
