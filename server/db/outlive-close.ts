/** How long after its end a connection of libpq is kept from the garbage collector. */
const KEPT_MS = 1_000;

/**
 * Keeps a connection that was just ended: the addon's poll handles lie in the object, and libuv looks at them once more at the end
 * of the turn. Collected before that, the program was aborted (uv__finish_close: handle->flags & UV_HANDLE_CLOSING).
 */
export function outliveClose(connection: object): void {
  setTimeout((_kept: object) => {}, KEPT_MS, connection).unref();
}
