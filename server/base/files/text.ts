const BYTE_ORDER_MARK = '\uFEFF';

/** The text without the byte order mark that some editors write first: it would be part of the first name or value. */
export function withoutByteOrderMark(text: string): string {
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
}

const causes: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a directory',
  EACCES: 'permission denied',
};

/** Why a file cannot be read, for people. */
export function whyUnreadable({ code = '', message }: NodeJS.ErrnoException): string {
  return causes[code] ?? (code || message);
}
