#!lua flags=allow-oom
-- Sets aside an outbox entry that cannot be read, so that later entries are delivered. Sent twice it is done once. The
-- last 100 are kept, with the reason, for an operator.
-- keys: meta outbox quarantine
-- uses: time open count
-- args: now, id of the entry, reason
-- reply: 1, or 0 when it was gone
local entry = redis.call('XRANGE', OUTBOX, ARGV[2], ARGV[2])[1]
if not entry then return 0 end
local fields = entry[2]
redis.call('XADD', QUARANTINE, 'MAXLEN', 100, '*', 'quarantined', STAMP, 'reason', ARGV[3],
  unpack(fields, 1, math.min(#fields, 100)))
redis.call('XDEL', OUTBOX, ARGV[2])
count('n:quarantined', 1)
return 1
