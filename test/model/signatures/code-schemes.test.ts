import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  checkGraph,
  checkMailgun,
  POINTER_CHARACTERS_MAX,
  readPointer,
  twilioContent,
} from '../../../server/model/signatures/code-schemes.ts';
import { compilePath } from '../../../server/model/signatures/json-scan.ts';

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
    ['that is not an object', null, false],
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
    ['with what is not a list', { value: { clientState: state } }, false],
    [
      'with the state of another in the last of many',
      { value: [...Array(50).fill({ clientState: state }), {}] },
      false,
    ],
  ])('%s', (_, body, verified) => {
    expect(checkGraph(KEY, json(body))).toBe(verified);
  });
});

describe('a pointer', () => {
  test.each([
    ['reads a text at the limit', POINTER_CHARACTERS_MAX, true],
    ['does not read one of one character more', POINTER_CHARACTERS_MAX + 1, false],
  ])('%s', (_, characters, isRead) => {
    const a = 'x'.repeat(characters);
    expect(readPointer(json({ a }), compilePath(['a']))).toBe(isRead ? a : null);
  });

  test.each([
    [['a', 'b'], 'x'],
    [['n'], '7'],
    [['a'], null],
    [['__proto__'], null],
    [['a', 'length'], null],
  ])('%j reads %j', (path, value) => {
    expect(readPointer(json({ a: { b: 'x' }, n: 7 }), compilePath(path))).toBe(value);
  });
});
