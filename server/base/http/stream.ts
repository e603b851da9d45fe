/** Answers of unknown length, such as server-sent events. */
import type { HttpResponse } from 'uWebSockets.js';
import { inUtf8, statusLines } from './answer.ts';

/** A streaming answer. After its end, all methods do nothing. */
export interface StreamAnswer {
  /** Returns false if the client disconnected, or has not read the earlier text. Unread text is buffered in memory. */
  write(text: string): boolean;
  /** Calls back once, when the socket has taken the unread text and more may be written. Not called after the end. */
  whenWritable(callback: () => void): void;
  /** Ends the answer and closes the connection. */
  end(): void;
  /** Ends an answer that is complete. The connection stays open: uWebSockets.js writes the header of a close into the last chunk. */
  complete(): void;
  /** Closes the connection without waiting for the client to read. */
  cut(): void;
}

interface StreamHost {
  /** True once the answer has ended or the client has disconnected. */
  isEnded(): boolean;
  /** Called when `end` has ended the answer. */
  onEnd(): void;
}

/** Sends the head of a 200 answer. @param fields the value of content-type, followed by all other fields. */
export function openStream(res: HttpResponse, fields: string, host: StreamHost): StreamAnswer {
  res.cork(() => {
    res.writeStatus(statusLines[200]!);
    res.writeHeader('content-type', fields);
  });
  return {
    write: (text) => {
      let flows = false;
      if (!host.isEnded())
        res.cork(() => {
          flows = res.write(inUtf8(text, Buffer.byteLength(text)));
        });
      return flows;
    },
    whenWritable: (callback) => {
      if (host.isEnded()) return;
      // The handler of a request stays set, so it may run again. Unread text is sent with the next write or at the end.
      let isCalled = false;
      res.onWritable(() => {
        if (!isCalled) callback();
        isCalled = true;
        return true;
      });
    },
    end: () => {
      if (host.isEnded()) return;
      res.cork(() => res.end('', true));
      host.onEnd();
    },
    complete: () => {
      if (host.isEnded()) return;
      res.cork(() => res.end());
      host.onEnd();
    },
    cut: () => {
      if (!host.isEnded()) res.close();
    },
  };
}
