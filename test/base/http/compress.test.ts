import { expect, test } from 'vitest';
import { Encodings } from '../../../server/base/http/stored-text.ts';

test('a text is compressed once in each coding, and again after a failure', async () => {
  const encodings = new Encodings(Buffer.from('a text'));
  expect(encodings.in('br')).toBe(encodings.in('br'));
  expect(encodings.in('gzip')).not.toBe(encodings.in('br'));
  // zlib refuses this quality.
  const failing = new Encodings(Buffer.from('a text'), 'none' as never);
  const first = failing.in('br');
  await expect(first).rejects.toThrow('none');
  const second = failing.in('br');
  expect(second).not.toBe(first);
  await expect(second).rejects.toThrow('none');
});
