/** A time limit for work that nothing can stop. */

/** Resolves with undefined if `work` does not settle in time. Its later result is dropped. */
export async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
