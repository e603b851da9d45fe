/** The Kubernetes manifest: its names, ports, paths and times are those of the code and of the image. */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readSettings } from '../../../server/base/settings/read.ts';
import { settingTable } from '../../../server/base/settings/table.ts';
import { plainRoutes } from '../../../server/manage/api/routes.ts';
import { someKey } from '../../helpers/settings.ts';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const guide = read('views/docs/installing.md');
const dockerfile = read('Dockerfile');
const manifest = read('containers/kubernetes.yaml');
const documents = parseAllDocuments(manifest, { uniqueKeys: true });

// biome-ignore lint/suspicious/noExplicitAny: YAML documents, looked into by tests
const [deployment, budget, service] = documents.map((document) => document.toJS()) as any[];
const { template } = deployment.spec;
const pod = template.spec;
const [container] = pod.containers;
type Named = { name: string } & Record<string, string>;
const environment = Object.fromEntries(container.env.map(({ name, value }: Named) => [name, value]));

describe('the Kubernetes manifest', () => {
  test('sets settings of the table to values that Weir accepts', () => {
    for (const name of Object.keys(environment)) expect(Object.keys(settingTable)).toContain(name);
    const image = Object.fromEntries(
      dockerfile
        .match(/^ENV (.+)$/m)![1]!
        .split(' ')
        .map((pair) => pair.split('=')),
    );
    const secret = { DATABASE_URL: 'postgresql://weir@postgres/weir', SECRETS_KEY: someKey };
    for (const name of Object.keys(secret)) expect(guide).toContain(`--from-literal=${name}=`);
    const settings = readSettings({ ...image, ...secret, ...environment }, '/srv/weir');
    expect(settings).toMatchObject({ HOST: '0.0.0.0', METRICS_HOST: '0.0.0.0', WORKERS: 2, DRAIN_SECONDS: 15 });
    expect(settings.RATE_LIMIT_REQUIRED).toBe(false);
  });

  test('passes no addresses of Services as settings', () => {
    expect(pod.enableServiceLinks).toBe(false);
  });

  test('names the ports of the settings, of the image and of the probes', () => {
    const ports = Object.fromEntries(container.ports.map(({ name, containerPort }: Named) => [name, containerPort]));
    expect(ports).toEqual({
      http: Number(settingTable.PORT.fallback),
      metrics: Number(settingTable.METRICS_PORT.fallback),
    });
    expect(dockerfile).toContain(`EXPOSE ${ports.http} ${ports.metrics}\n`);
    expect(service.spec.ports.map(({ targetPort }: Named) => targetPort)).toEqual(['http']);
    expect(template.metadata.annotations['prometheus.io/port']).toBe(String(ports.metrics));
  });

  test.each([
    ['startupProbe', '/healthz'],
    ['livenessProbe', '/healthz'],
    ['readinessProbe', '/readyz'],
  ])('asks %s at %s, which exists', (name, path) => {
    expect(container[name].httpGet).toEqual({ path, port: 'http' });
    expect(plainRoutes.map(([method, route]) => `${method} ${route}`)).toContain(`GET ${path}`);
  });

  test('grants the whole drain', () => {
    const [command, seconds] = container.lifecycle.preStop.exec.command;
    expect(command).toBe('sleep');
    const drainSeconds = Number(settingTable.DRAIN_DELAY_SECONDS.fallback) + Number(environment.DRAIN_SECONDS);
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Number(seconds) + drainSeconds);
    const stated = manifest.match(/preStop \((\d+)\) \+ DRAIN_DELAY_SECONDS \((\d+)\) \+ DRAIN_SECONDS \((\d+)\)/)!;
    expect(stated.slice(1)).toEqual([seconds, settingTable.DRAIN_DELAY_SECONDS.fallback, environment.DRAIN_SECONDS]);
  });

  test('selects its pods, and lets one of several be evicted at a time', () => {
    const { labels } = template.metadata;
    expect([deployment.spec.selector.matchLabels, budget.spec.selector.matchLabels, service.spec.selector]).toEqual([
      labels,
      labels,
      labels,
    ]);
    expect(deployment.spec.replicas).toBeGreaterThan(budget.spec.maxUnavailable);
  });

  test('runs as the user of the image, without privileges, with its directories writable', () => {
    const { runAsUser, runAsGroup } = pod.securityContext;
    expect(dockerfile).toContain(`--gid ${runAsGroup} weir`);
    expect(dockerfile).toContain(`--uid ${runAsUser} --gid weir`);
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(container.volumeMounts.map(({ mountPath }: Named) => mountPath)).toEqual([
      dockerfile.match(/^VOLUME (.+)$/m)![1],
      '/tmp',
    ]);
    expect(container.volumeMounts.map(({ name }: Named) => name)).toEqual(pod.volumes.map(({ name }: Named) => name));
    // An emptyDir has mode 0777, and a container cannot change it.
    expect(dirname(environment.DATA_DIR!)).toBe(container.volumeMounts[0]!.mountPath);
  });
});
