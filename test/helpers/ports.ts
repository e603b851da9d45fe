/** Ports for servers that a test starts. */
export { freePort } from '../../server/operate/load/environment.ts';
