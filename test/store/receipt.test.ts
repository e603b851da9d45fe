import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { uuidText, uuidv7 } from '../../server/store/ids.ts';
import { parseReceipt, receiptText } from '../../server/store/queries/claims/receipts.ts';

const deliveryId = uuidText(uuidv7(Date.UTC(2026, 5, 1), randomBytes(16)));
const receipt = { deliveryId, lease: 12 };

test('a receipt parses to its parts', () => {
  expect(receiptText(receipt)).toBe(`${deliveryId}.12`);
  expect(parseReceipt(receiptText(receipt))).toEqual(receipt);
  expect(parseReceipt(receiptText(receipt).toUpperCase())).toEqual(receipt);
});

test.each([
  ['nothing', ''],
  ['a dot', '.'],
  ['no attempt', deliveryId],
  ['an empty attempt', `${deliveryId}.`],
  ['attempt zero', `${deliveryId}.0`],
  ['a negative attempt', `${deliveryId}.-1`],
  ['a fraction', `${deliveryId}.1.5`],
  ['leading zeros', `${deliveryId}.01`],
  ['an exponent', `${deliveryId}.1e3`],
  ['an attempt past the integers of Postgres', `${deliveryId}.9999999999`],
  ['a line end', `${deliveryId}.1\n`],
  ['a blank', ` ${deliveryId}.1`],
  ['a quote', `${deliveryId.slice(0, -1)}'.1`],
  ['no UUID', 'nonsense.1'],
  ['a time past the year 9999', `ffffffff-ffff-7fff-bfff-ffffffffffff.1`],
])('%s is not a receipt', (_what, text) => {
  expect(parseReceipt(text)).toBeNull();
});
