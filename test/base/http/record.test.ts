import { expect, test } from 'vitest';
import { recordOf } from '../../../server/base/http/record.ts';

test.each(['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__'])(
  '%s is found only as an own entry',
  (name) => {
    expect(recordOf([['other', 'x']])[name]).toBeUndefined();
    expect(Object.entries(recordOf([[name, 'x']]))).toEqual([[name, 'x']]);
  },
);
