/** How long a closed libpq connection is protected from garbage collection. */
const KEPT_MS = 1_000;

/**
 * Keeps a reference to a connection that was just closed. The addon's poll handles are part of the object, and libuv accesses them once
 * more at the end of the turn. If the object was collected before that, the process aborted
 * (uv__finish_close: handle->flags & UV_HANDLE_CLOSING).
 */
export function outliveClose(connection: object): void {
  setTimeout((_kept: object) => {}, KEPT_MS, connection).unref();
}
