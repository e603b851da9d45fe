import { expect, test } from 'vitest';
import { AddressRefused, checkedAddresses } from '../../../server/base/net/checked-address.ts';

const resolving =
  (...addresses: string[]) =>
  async () =>
    addresses.map((address) => ({ address }));
const verdict = (addresses: string[], allowPrivate: boolean) =>
  checkedAddresses('receiver.example', allowPrivate, resolving(...addresses)).then(
    () => 'allowed',
    (error) => (error instanceof AddressRefused ? `refused${error.isPrivate ? ', private' : ''}` : error),
  );

test.each([
  ['8.8.8.8', 'allowed', 'allowed'],
  ['2606:4700::1111', 'allowed', 'allowed'],
  ['127.0.0.1', 'refused, private', 'allowed'],
  ['::1', 'refused, private', 'allowed'],
  ['10.1.2.3', 'refused, private', 'allowed'],
  ['172.31.255.255', 'refused, private', 'allowed'],
  ['192.168.0.1', 'refused, private', 'allowed'],
  ['100.64.0.1', 'refused, private', 'allowed'],
  ['fd00::1', 'refused, private', 'allowed'],
  ['::ffff:127.0.0.1', 'refused, private', 'allowed'],
  ['::ffff:8.8.8.8', 'allowed', 'allowed'],
  // NAT64 leads to the IPv4 address in it.
  ['64:ff9b::a00:1', 'refused, private', 'allowed'],
  ['64:ff9b::808:808', 'allowed', 'allowed'],
  // Cloud metadata, also in IPv6 forms.
  ['169.254.169.254', 'refused', 'refused'],
  ['fe80::1', 'refused', 'refused'],
  ['64:ff9b::a9fe:a9fe', 'refused', 'refused'],
  ['2002:7f00:1::', 'refused', 'refused'],
  ['fd00:ec2::254', 'refused', 'refused'],
  ['fd00:0ec2:0::0254', 'refused', 'refused'],
  ['100.100.100.200', 'refused', 'refused'],
  ['::ffff:100.100.100.200', 'refused', 'refused'],
  ['168.63.129.16', 'refused', 'refused'],
  ['64:ff9b::a83f:8110', 'refused', 'refused'],
  // The local prefix of NAT64, with 169.254.169.254 after 48 bits and at the end.
  ['64:ff9b:1:a9fe:a9:fe00::', 'refused', 'refused'],
  ['64:ff9b:1::808:808', 'refused', 'refused'],
  ['fec0::1', 'refused', 'refused'],
  // The IPv4 addresses 127.0.0.1 and 169.254.169.254 behind an automatic tunnel, and what is not assigned.
  ['::7f00:1', 'refused', 'refused'],
  ['::a9fe:a9fe', 'refused', 'refused'],
  ['1fff::1', 'refused', 'refused'],
  ['4000::1', 'refused', 'refused'],
  ['0.0.0.0', 'refused', 'refused'],
  ['::', 'refused', 'refused'],
  ['224.0.0.1', 'refused', 'refused'],
  ['255.255.255.255', 'refused', 'refused'],
  ['240.0.0.1', 'refused', 'refused'],
])('the address %s is %s; with private networks %s', async (address, usual, withPrivate) => {
  expect(await verdict([address], false)).toBe(usual);
  expect(await verdict([address], true)).toBe(withPrivate);
});

test('one refused address refuses the name', async () => {
  expect(await verdict(['8.8.8.8', '10.0.0.1'], false)).toBe('refused, private');
  expect(await verdict(['10.0.0.1', '169.254.169.254'], true)).toBe('refused');
});

test.each(['http://0x7f.1/', 'http://2130706433/', 'http://127.1/', 'http://[::1]/', 'http://[::ffff:7f00:1]/'])(
  '%s is loopback without a look-up',
  async (url) => {
    const never = () => Promise.reject(new Error('looked up'));
    await expect(checkedAddresses(new URL(url).hostname, false, never)).rejects.toThrow(AddressRefused);
  },
);
