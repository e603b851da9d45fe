/**
 * The upper bound: uWebSockets.js reads the body and answers 202 immediately. It neither verifies nor stores.
 * Arguments: port, size of the response in bytes.
 */
import uWS from 'uWebSockets.js';

const [port, answerBytes] = process.argv.slice(2).map(Number) as [number, number];
const answer = `{"id":"${'0'.repeat(answerBytes - 9)}"}`;

process.stdin.resume().on('end', () => process.exit());
uWS
  .App()
  .post('/in/:id', (res) => {
    res.onAborted(() => {});
    res.onData((_chunk, isLast) => {
      if (!isLast) return;
      res.cork(() => {
        res.writeStatus('202 Accepted').writeHeader('content-type', 'application/json').end(answer);
      });
    });
  })
  .listen('127.0.0.1', port, (socket) => {
    if (socket === false) throw new Error(`cannot listen on port ${port}`);
    console.log('listening');
  });
