// BullMQ itself: `node real.js MODULE PORT DB COMMAND [ARGUMENTS…]`, where MODULE is its folder.
const [module_, port, db, command, ...names] = process.argv.slice(2);
const { Queue, Worker, FlowProducer } = require(module_);
const Redis = require(require('path').join(module_, '..', 'ioredis'));
const connection = { host: '127.0.0.1', port: Number(port), db: Number(db), maxRetriesPerRequest: null };
const plain = new Redis(connection);
const queue = new Queue(process.env.QUEUE || 'mail', { connection });

async function run(job) {
  await plain.incr(`ran:${job.id}`);
  if (job.name === 'fail' && !(await plain.exists('repaired'))) throw new TypeError(`no route to ${job.id}`);
  if (job.name === 'hang') await new Promise(() => {});
}

async function main() {
  if (command === 'work' || command === 'linger') {
    const options = command === 'linger' ? { lockDuration: 1000, stalledInterval: 600000 } : {};
    const worker = new Worker('mail', run, { connection, ...options });
    worker.on('error', () => {});
    return; // until it is killed
  }
  if (command === 'flow') {
    const flow = new FlowProducer({ connection });
    const children = names.slice(1).map((name) => ({ name: 'fail', queueName: 'mail', opts: { jobId: name } }));
    await flow.add({ name: 'count', queueName: 'mail', opts: { jobId: names[0] }, children });
    await flow.close();
  } else if (command === 'retry' || command === 'remove' || command === 'promote') {
    for (const name of names) {
      const job = await queue.getJob(name);
      await (command === 'retry' ? job.retry('failed') : job[command]());
    }
  } else if (command === 'retryall') {
    await queue.retryJobs();
  } else if (command === 'stalled') {
    const worker = new Worker('mail', null, { connection, autorun: false });
    await worker.waitUntilReady();
    for (let look = 0; look < 2; look++) { // the first only marks the jobs
      await plain.del('bull:mail:stalled-check');
      await worker.moveStalledJobsToWait();
    }
    await worker.close(true);
  } else if (command === 'schedule') {
    for (const name of names) await queue.upsertJobScheduler(name, { pattern: '0 3 1 1 *' }, { name: 'count' });
  } else if (command === 'pause' || command === 'resume' || command === 'drain') {
    await queue[command]();
  } else {
    const [name, option] = command.split('-');
    const opts = { later: { delay: 3600000 }, urgent: { priority: 3 } }[option] || {};
    for (const id of names) await queue.add(name, { id }, { jobId: id, ...opts });
  }
  await queue.close();
  await plain.quit();
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
