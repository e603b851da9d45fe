import { expect, test } from 'vitest';
import { parseSettings } from '../../../server/base/settings/read.ts';
import { givenToProcess, processEnvironment } from '../../../server/operate/primary/forks.ts';

test("libuv gets more threads than connection attempts can take, and glibc a fixed threshold, or the operator's numbers", () => {
  expect(processEnvironment({}, 16_384)).toMatchObject({ UV_THREADPOOL_SIZE: '16', MALLOC_MMAP_THRESHOLD_: '1000000' });
  const own = { UV_THREADPOOL_SIZE: '8', MALLOC_MMAP_THRESHOLD_: '131072' };
  expect(processEnvironment(own, 16_384)).toMatchObject(own);
});

test('a process gets no password of the administrator, and settings that it can parse', () => {
  const values = {
    ADMIN_EMAIL: 'ada@example.org',
    ADMIN_PASSWORD: 'correct horse battery 9',
    SETTING_OF_ANOTHER_BUILD: '7',
    DATA_DIR: 'data',
  };
  const given = { values, directory: '/srv/weir' };
  const passed = givenToProcess(given, parseSettings(given));
  expect(passed.values).toEqual({ ...values, DATA_DIR: '/srv/weir/data', ADMIN_PASSWORD: expect.any(String) });
  expect(passed.values.ADMIN_PASSWORD).not.toBe(values.ADMIN_PASSWORD);
  expect(parseSettings(passed)).toMatchObject({ ADMIN_EMAIL: values.ADMIN_EMAIL });
});
