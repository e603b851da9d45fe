/** What is said once after a change, by its name in the address: `?notice=…`. A sentence of our own, whatever the address says. */
export const notices: Readonly<Record<string, string>> = {
  'signed-out': 'You are signed out.',
  saved: 'Saved.',
  deleted: 'Deleted.',
  'token-revoked': 'The token is revoked: it is refused everywhere from now on.',
};
