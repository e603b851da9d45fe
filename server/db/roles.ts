/** What people may do. A role may all that the ones before it may; the route table says which role a route asks for. */

export const roles = ['viewer', 'operator', 'administrator'] as const;
export type Role = (typeof roles)[number];

/** Whether somebody in `role` may do what asks for `needed`. */
export function allows(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

/** The lesser of two roles: a token gives at most its own, and never more than its user has. */
export function lesserRole(one: Role, other: Role): Role {
  return allows(one, other) ? other : one;
}
