/** Ports for servers that a test starts. */
export { freePort } from '../../server/cli/bench/ground.ts';
