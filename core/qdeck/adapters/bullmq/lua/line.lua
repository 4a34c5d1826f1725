-- Puts a job of BullMQ in line again: one that failed, is delayed, or whose worker has lost it.
-- KEYS: what lists it now, then wait, paused, prioritized, meta, active, marker, events, pc and stalled of its queue.
-- Arguments: how the keys of the queue begin, id, state, score, major version of BullMQ, end of the list.
return function(args, keep)
  local base, id, from, score, major, side = unpack(args)
  local listed, wait, paused, prioritized, meta, active, marker, events, counter, stalled = unpack(KEYS)
  local job = base .. id

  local function holds(key, kind)
    local found = redis.call('TYPE', key).ok
    return found == kind or found == 'none'
  end
  for key, kind in pairs({
    [job] = 'hash', [wait] = 'list', [paused] = 'list', [prioritized] = 'zset', [meta] = 'hash', [active] = 'list',
    [marker] = 'zset', [events] = 'stream', [counter] = 'string', [stalled] = 'set',
  }) do
    if not holds(key, kind) then return 'wrong_type', key end
  end
  if redis.call('EXISTS', job) == 0 then return 'no_record', job end
  local place
  if from == 'active' then
    place = redis.call('LPOS', listed, id)
    if not place then return 'gone', listed end
    if redis.call('EXISTS', job .. ':lock') == 1 then return 'changed', job .. ':lock' end
  else
    local now = redis.call('ZSCORE', listed, id)
    if not now then return 'gone', listed end
    if tonumber(now) ~= tonumber(score) then return 'changed', listed end
  end
  local parent = from == 'failed' and redis.call('HGET', job, 'parentKey')
  if parent and redis.call('EXISTS', parent) == 1 then
    for part, kind in pairs({ [':unsuccessful'] = 'zset', [':failed'] = 'hash', [':dependencies'] = 'set' }) do
      if not holds(parent .. part, kind) then return 'wrong_type', parent .. part end
    end
  end

  -- From here on it is written.
  if from == 'active' then
    keep('entry', listed, id, '', nil, 'L', tostring(place))
    redis.call('LREM', listed, 1, id)
    if redis.call('SREM', stalled, id) == 1 then keep('member', stalled, id, '', nil) end
  else
    keep('score', listed, id, redis.call('ZSCORE', listed, id), nil)
    redis.call('ZREM', listed, id)
  end
  local function put(field, after)
    local before = redis.call('HGET', job, field) or nil
    if before == after then return end
    keep('field', job, field, before, after)
    if after then redis.call('HSET', job, field, after) else redis.call('HDEL', job, field) end
  end
  if from == 'failed' then
    for _, field in ipairs({ 'finishedOn', 'processedOn', 'failedReason' }) do put(field, nil) end
  elseif from == 'delayed' then
    put('delay', '0')
  end

  local said = redis.call('HMGET', meta, 'paused', 'concurrency')
  local busy = said[1] or (said[2] and redis.call('LLEN', active) >= tonumber(said[2]))
  local priority = tonumber(redis.call('HGET', job, 'priority')) or 0
  if from == 'failed' and major == '5' then priority = 0 end  -- the retry of BullMQ 5 does not honour it
  if priority > 0 then
    -- One that was taken already goes before the others of its priority.
    local count = from == 'active' and 0 or redis.call('INCR', counter)
    local rank = string.format('%.0f', priority * 4294967296 + count % 4294967296)
    keep('score', prioritized, id, nil, rank)
    redis.call('ZADD', prioritized, rank, id)
  else
    local line = said[1] and major == '5' and paused or wait
    keep('entry', line, id, nil, '', side)
    if side == 'R' then redis.call('RPUSH', line, id) else redis.call('LPUSH', line, id) end
  end
  if not busy then redis.call('ZADD', marker, 0, '0') end

  if parent and redis.call('EXISTS', parent) == 1 then
    local rank = redis.call('ZSCORE', parent .. ':unsuccessful', job)
    local told = redis.call('HGET', parent .. ':failed', job)
    if rank then
      keep('score', parent .. ':unsuccessful', job, rank, nil)
      redis.call('ZREM', parent .. ':unsuccessful', job)
    elseif told then
      keep('field', parent .. ':failed', job, told, nil)
      redis.call('HDEL', parent .. ':failed', job)
    end
    if (rank or told) and redis.call('SADD', parent .. ':dependencies', job) == 1 then
      keep('member', parent .. ':dependencies', job, nil, '')
    end
  end
  local most = redis.call('HGET', meta, 'opts.maxLenEvents') or '10000'
  redis.call('XADD', events, 'MAXLEN', '~', most, '*', 'event', 'waiting', 'jobId', id, 'prev', from)
end
