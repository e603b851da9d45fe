import { describe, expect, test } from 'vitest';
import { passwordProblem } from '../../server/core/password-rules.ts';

const EMAIL = 'ada.lovelace@example.org';

describe('a new password', () => {
  test.each([
    ['of 12 characters', 'x'.repeat(12)],
    ['of 200 characters', 'x'.repeat(200)],
    ['of 12 characters outside the basic plane', '🂡'.repeat(12)],
    ['of letters alone', 'correcthorsebatterystaple'],
    ['with spaces at its ends', ' ten letters '],
    ['that holds the email', `${EMAIL}!`],
  ])('%s will do', (_what, password) => {
    expect(passwordProblem(password, EMAIL)).toBeNull();
  });

  test.each([
    ['empty', '', /12 to 200/],
    ['of 11 characters', 'x'.repeat(11), /12 to 200/],
    ['of 201 characters', 'x'.repeat(201), /12 to 200/],
    ['of 11 characters in 22 units', '🂡'.repeat(11), /12 to 200/],
    ['of 12 characters that compose to 6', 'ä'.normalize('NFD').repeat(6), /12 to 200/],
    ['with half of a surrogate pair', `${'x'.repeat(12)}\ud800`, /surrogate/],
    ['that is the email', EMAIL, /email/],
    ['that is the email in upper case', EMAIL.toUpperCase(), /email/],
  ])('%s is refused', (_what, password, why) => {
    expect(passwordProblem(password, EMAIL)).toMatch(why);
  });
});
