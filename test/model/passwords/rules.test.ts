import { describe, expect, test } from 'vitest';
import { passwordProblem } from '../../../server/model/passwords/rules.ts';

const EMAIL = 'ada.lovelace@example.org';

describe('a new password', () => {
  test.each([
    ['of 12 characters', 'kestrel bowl'],
    ['of 200 characters', 'kestrel bowl'.padEnd(200, ' and a kettle of 7 fish')],
    ['of 12 characters outside the basic plane', '🂡🂢🂣🂤🂡🂢🂧🂨🂩🂪🂫🂭'],
    ['of random digits', '839206174052'],
    ['with a common word among others', 'a dragon in the bath'],
    ['that a generator made', '3f9k-x2mq-7vbt-0wzc-h8rd-5npe'],
    ['of letters alone', 'correcthorsebatterystaple'],
    ['with spaces at its ends', ' ten letters '],
    ['that holds the email among other words', `kettle ${EMAIL} fish`],
  ])('%s is accepted', (_what, password) => {
    expect(passwordProblem(password, EMAIL)).toBeNull();
  });

  test('can contain the single letter of a short email', () => {
    expect(passwordProblem('83!92=84#10a', 'a@b.example')).toBeNull();
  });

  test.each([
    ['empty', '', /12 to 200/],
    ['of 11 characters', 'kestrel bow', /12 to 200/],
    ['of 201 characters', 'x'.repeat(201), /12 to 200/],
    ['of 11 characters in 22 units', '🂡'.repeat(11), /12 to 200/],
    ['of 12 characters that compose to 6', 'ä'.normalize('NFD').repeat(6), /12 to 200/],
    ['with half of a surrogate pair', `${'x'.repeat(12)}\ud800`, /surrogate/],
    ['that is the email', EMAIL, /email/],
    ['that is the email in upper case', EMAIL.toUpperCase(), /email/],
    ['that is the email and a sign', `${EMAIL}!`, /email/],
    ['that is the name in the email and a year', 'Ada.Lovelace1985', /email/],
    ['that is the domain of the email and digits', 'example123456', /email/],
    ['that is our own name and digits', 'weir20261121', /email/],
    ['of a common word and digits', 'password1234', /easy to guess/],
    ['of a common word with signs for letters', 'P@ssw0rd!2026', /easy to guess/],
    ['of a common word twice', 'passwordpassword', /easy to guess/],
    ['of a common word between digits', '12Football34', /easy to guess/],
    ['that is common as it is', '1qaz2wsx3edc', /easy to guess/],
    ['of a row of keys', 'qwertyuiop[]', /easy to guess/],
    ['of one character', 'xxxxxxxxxxxx', /easy to guess/],
    ['of three characters, over and over', 'abcabcabcabc', /easy to guess/],
    ['of letters in their order', 'abcdefghijkl', /easy to guess/],
    ['of digits in their order', '123456789012', /easy to guess/],
  ])('%s is refused', (_what, password, why) => {
    expect(passwordProblem(password, EMAIL)).toMatch(why);
  });
});
