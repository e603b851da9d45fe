import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  checkGraph,
  checkMailgun,
  PARSED_BYTES_MAX,
  readPointer,
  twilioContent,
} from '../../server/signatures/code-schemes.ts';

const KEY = Buffer.from('a secret between friends');
const json = (value: unknown) => Buffer.from(JSON.stringify(value));

describe('the form that Twilio signs', () => {
  test.each([
    ['is sorted by name', 'b=2&a=1', 'Ua1b2'],
    ['has each value of a repeated name once, sorted', 'a=2&a=1&a=2', 'Ua1a2'],
    ['is decoded', 'a=x+y%26', 'Uax y&'],
    ['is empty', '', 'U'],
  ])('%s', (_, body, content) => {
    expect(twilioContent('U', Buffer.from(body))).toBe(content);
  });

  test('is not read if the URL holds the hash of the body', () => {
    expect(twilioContent(`U?bodySHA256=${'0'.repeat(64)}`, Buffer.from('a=1'))).toBeNull();
  });
});

describe('Mailgun', () => {
  const sign = (timestamp: string, token: string) => ({
    timestamp,
    token,
    signature: createHmac('sha256', KEY).update(`${timestamp}${token}`).digest('hex'),
  });
  const token = '5'.repeat(50);

  test.each([
    ['signed', { signature: sign('1760000000', token) }, true],
    ['with a digit moved from the token to the time', { signature: sign('17600000005', token.slice(1)) }, false],
    ['with a digit moved from the time to the token', { signature: sign('176000000', `0${token}`) }, false],
    ['with another token', { signature: { ...sign('1760000000', token), token: '6'.repeat(50) } }, false],
    ['without a signature', { signature: { timestamp: '1760000000', token } }, false],
    ['with a list as signature', { signature: [] }, false],
    ['that is no object', null, false],
  ])('%s', (_, body, verified) => {
    expect(checkMailgun(KEY, json(body))).toBe(verified);
  });
});

describe('Microsoft Graph', () => {
  const state = KEY.toString();
  test.each([
    ['with the state in each notification', { value: [{ clientState: state }, { clientState: state }] }, true],
    ['with the state in one of two', { value: [{ clientState: state }, { clientState: 'other' }] }, false],
    ['without a state', { value: [{}] }, false],
    ['without a notification', { value: [] }, false],
    ['with what is no list', { value: { clientState: state } }, false],
  ])('%s', (_, body, verified) => {
    expect(checkGraph(KEY, json(body))).toBe(verified);
  });
});

describe('a body is parsed', () => {
  const body = (bytes: number) => Buffer.from(JSON.stringify({ a: 1 }).padEnd(bytes));
  test.each([
    ['at the limit', PARSED_BYTES_MAX, '1'],
    ['one byte over it not', PARSED_BYTES_MAX + 1, null],
  ])('%s', (_, bytes, value) => {
    expect(readPointer(body(bytes), ['a'])).toBe(value);
  });

  test.each([
    [['a', 'b'], 'x'],
    [['n'], '7'],
    [['a'], null],
    [['__proto__'], null],
    [['a', 'length'], null],
  ])('and %j is %j', (path, value) => {
    expect(readPointer(json({ a: { b: 'x' }, n: 7 }), path)).toBe(value);
  });
});
