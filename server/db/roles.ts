/** User roles. Each role includes the permissions of the roles before it; the route table defines the role that a route requires. */

export const roles = ['viewer', 'operator', 'administrator'] as const;
export type Role = (typeof roles)[number];

/** Whether `role` has the permissions of `needed`. */
export function allows(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

/** The lesser of two roles: a token is limited to its own role and to the role of its user. */
export function lesserRole(one: Role, other: Role): Role {
  return allows(one, other) ? other : one;
}
