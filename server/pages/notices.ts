/** What is said once after a change, by its name in the address: `?notice=…`. A sentence of our own, whatever the address says. */
export const notices: Readonly<Record<string, string>> = {
  'signed-out': 'You are signed out.',
  saved: 'Saved.',
  deleted: 'Deleted.',
  'set-up': 'Weir is set up, and you are its administrator.',
  'signed-out-everywhere': 'You are signed out everywhere.',
  'password-changed': 'Your password is changed; every other browser is signed out.',
  'password-reset': 'The password is set, and their browsers are signed out.',
  'user-made': 'The user is made.',
  'user-disabled': 'The user is disabled.',
  'user-enabled': 'The user is enabled.',
  'token-revoked': 'The token is revoked: it is refused everywhere from now on.',
};
