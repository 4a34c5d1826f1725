#!lua
-- Makes one change of another system's keys, a set of cells: all of it, or nothing where one is not as it was seen.
-- KEYS: the keys of the cells, each once; the last one is the hash that keeps what undoes the batch.
-- ARGV: "do", "undo" or "once" (nothing is kept), place in the batch, ms to keep what undoes it, most bytes to keep of
--   the batch, id of the entry; then the cells, of 8 values each: kind, number of the key, ident, before, after, part,
--   extra, place. A value is "=" and itself, "-" absent, "?" whatever it is, "~" nothing: not looked at, not written.
-- Looks at every cell, asks for the rights of every write, and only then writes. What undoes a change is its cells from
-- the last to the first, with before and after exchanged and what was found in place of "?". In an undo, the cells of
-- one part are left as they are where one of them has changed; any other that has changed stops it.
-- Replies {0, bytes kept of the batch, 1 if this one is kept, error of an effect}, with -1 where it is done already, or
--   {n, code} for the n-th cell, which is not as it was.
local undo, mode, place = KEYS[#KEYS], ARGV[1], ARGV[2]
local undoes = mode == 'undo'
if mode ~= 'once' and (redis.call('HEXISTS', undo, place) == 1) ~= undoes then
  return { -1, tonumber(redis.call('HGET', undo, 'bytes') or 0), redis.call('HSTRLEN', undo, place) > 0 and 1 or 0, '' }
end

local cells = {}
for at = 6, #ARGV, 8 do
  cells[#cells + 1] = {
    kind = ARGV[at], key = KEYS[tonumber(ARGV[at + 1])], number = #cells + 1, ident = ARGV[at + 2],
    before = ARGV[at + 3], after = ARGV[at + 4], part = ARGV[at + 5], extra = ARGV[at + 6], place = ARGV[at + 7],
  }
end

local function packed(values)
  local out = {}
  for i, value in ipairs(values) do out[i] = #value .. ':' .. value end
  return table.concat(out)
end

local function unpacked(text)
  local out, at = {}, 1
  while at <= #text do
    local size, from = text:match('^(%d+):()', at)
    out[#out + 1] = text:sub(from, from + size - 1)
    at = from + size
  end
  return out
end

local function there(key) return redis.call('EXISTS', key) == 1 end

local function expires(key)
  local at = redis.call('PEXPIRETIME', key)
  return at > 0 and string.format('%.0f', at)
end

-- The index of an entry of a list: at the place where it is expected, counted from its end, else the nearest to that end.
local function find(cell)
  local left, hint = cell.extra == 'L', tonumber(cell.place)
  if hint then
    local at = left and hint or -1 - hint
    local found = redis.pcall('LINDEX', cell.key, at)
    if type(found) == 'table' then return found end
    if found == cell.ident then return at end
  end
  return redis.pcall('LPOS', cell.key, cell.ident, 'RANK', left and 1 or -1)
end

-- Whether a group of a stream was given an entry.
local function given(key, id)
  local ms, seq = id:match('^(%d+)-(%d+)$')
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    for i = 1, #group, 2 do
      if group[i] == 'last-delivered-id' then
        local last_ms, last_seq = group[i + 1]:match('^(%d+)-(%d+)$')
        last_ms, last_seq, ms, seq = tonumber(last_ms), tonumber(last_seq), tonumber(ms), tonumber(seq)
        if last_ms > ms or last_ms == ms and last_seq >= seq then return true end
      end
    end
  end
  return false
end

local returns = {}  -- entries of streams that this change adds again
-- What is there now: a text, nothing, or an error; and a code where that decides.
local look = {
  field = function(cell) return redis.pcall('HGET', cell.key, cell.ident) end,
  score = function(cell)
    local found = redis.pcall('ZSCORE', cell.key, cell.ident)
    local same = type(found) == 'string' and tonumber(found) == tonumber(cell.before:sub(2))
    return same and cell.before:sub(2) or found
  end,
  member = function(cell)
    local found = redis.pcall('SISMEMBER', cell.key, cell.ident)
    return found == 1 and '' or found ~= 0 and found
  end,
  string = function(cell) return redis.pcall('GET', cell.key) end,
  expiry = function(cell) return expires(cell.key) end,
  key = function(cell)
    if not there(cell.key) then return false end
    return #cell.before > 1 and redis.sha1hex(redis.call('DUMP', cell.key)) or ''
  end,
  entry = function(cell)
    if cell.before == '-' then return type(redis.pcall('LLEN', cell.key)) == 'table' and redis.pcall('LLEN', cell.key) end
    local found = find(cell)
    return type(found) == 'number' and '' or found
  end,
  pending = function(cell)
    local found = redis.pcall('XPENDING', cell.key, cell.extra, cell.ident, cell.ident, 1)
    if found.err then return not found.err:find('NOGROUP', 1, true) and found, 'gone' end
    if found[1] then
      local now = redis.call('TIME')
      cell.place = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - found[1][3])
      return found[1][4] .. ':' .. found[1][2]
    end
    local is_gone = #redis.call('XRANGE', cell.key, cell.ident, cell.ident) == 0
    if cell.before == '-' and is_gone and not returns[cell.key .. cell.ident] then return false, 'gone' end
    return false
  end,
  stream = function(cell)
    if cell.before == '-' then return type(redis.pcall('XLEN', cell.key)) == 'table' and redis.pcall('XLEN', cell.key) end
    local found = redis.pcall('XRANGE', cell.key, cell.ident, cell.ident)
    if found.err then return found end
    if not found[1] then return false end
    return packed(found[1][2]), cell.extra == 'made' and given(cell.key, cell.ident) and 'changed' or nil
  end,
  rename = function(cell)
    local source, target = there(cell.key), there(cell.ident)
    if cell.before == '-' then return source and '', not source and not target and 'gone' or nil end
    return source and '', source and target and 'already_there' or nil
  end,
  size = function(cell)
    local kind = redis.call('TYPE', cell.key).ok
    local count = ({ list = 'LLEN', set = 'SCARD', zset = 'ZCARD', hash = 'HLEN', stream = 'XLEN' })[kind]
    return tostring(count and redis.call(count, cell.key) or 0)
  end,
  effect = function(cell)
    local kind = cell.extra ~= '' and redis.call('TYPE', cell.key).ok
    return kind and kind ~= 'none' and kind ~= cell.extra and { err = 'WRONGTYPE' }
  end,
}

for _, cell in ipairs(cells) do
  if cell.kind == 'stream' and cell.before == '-' then returns[cell.key .. cell.ident] = true end
end
local left = {}
for _, cell in ipairs(cells) do
  if cell.before ~= '~' then
    local found, code = look[cell.kind](cell)
    if type(found) == 'table' then
      if not found.err:find('WRONGTYPE', 1, true) then return found end
      code = 'wrong_type'
    elseif not code and cell.before ~= '?' and not (cell.kind == 'expiry' and cell.extra ~= '') then
      local seen = found and '=' .. found or '-'
      local fresh = cell.before == '-' and cell.kind ~= 'field'
      if seen ~= cell.before then code = not found and 'gone' or fresh and 'already_there' or 'changed' end
    end
    if code and not (undoes and cell.part ~= '') then return { cell.number, code } end
    if code then left[cell.part] = true end
    cell.found = found
  end
end

-- The commands by which a cell is there, and is not.
local commands = {
  field = { 'HSET', 'HDEL' }, score = { 'ZADD', 'ZREM' }, member = { 'SADD', 'SREM' }, string = { 'SET', 'DEL' },
  expiry = { 'PEXPIREAT', 'PERSIST' }, key = { 'RESTORE', 'UNLINK' }, pending = { 'XCLAIM', 'XACK' },
  entry = { 'LPUSH RPUSH LSET LINSERT', 'LSET LREM' }, stream = { 'XADD', 'XDEL' }, rename = { 'RENAME', 'RENAME' },
}
local writes, asked = {}, {}
for rank, kinds in ipairs({ 'other', 'expiry', 'effect' }) do
  for _, cell in ipairs(cells) do
    local mine = (cell.kind == 'expiry' or cell.kind == 'effect') and cell.kind or 'other'
    local idle = cell.after == '~' or cell.before == '~' or cell.before == cell.after or left[cell.part]
    if mine == kinds and not idle then
      writes[#writes + 1] = cell
      if cell.kind == 'effect' then
        asked[#asked + 1] = { cell.ident, cell.key or unpacked(cell.after:sub(2))[1] }
      else
        for name in commands[cell.kind][cell.after == '-' and 2 or 1]:gmatch('%u+') do
          asked[#asked + 1] = { name, cell.key, cell.kind == 'rename' and cell.ident or nil }
        end
      end
    end
  end
end
if mode == 'do' then
  for _, name in ipairs({ 'HSET', 'PEXPIRE', 'HINCRBY' }) do asked[#asked + 1] = { name, undo } end
elseif undoes then
  asked[#asked + 1] = { 'HDEL', undo }
end
for _, call in ipairs(asked) do
  if not redis.acl_check_cmd(unpack(call)) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. call[1] .. ': nothing was changed')
  end
end

local was, failed = {}, ''
for _, cell in ipairs(writes) do
  if cell.key and was[cell.key] == nil then was[cell.key] = { there = there(cell.key), expires = expires(cell.key) } end
end

local grave = '\0qdeck ' .. place
local function take(cell)
  local at = find(cell)
  if type(at) ~= 'number' then
    cell.after = '~'  -- another cell of this change took it
    return
  end
  local size = redis.call('LLEN', cell.key)
  local from_left = at < 0 and size + at or at
  redis.call('LSET', cell.key, at, grave)
  redis.call('LREM', cell.key, cell.extra == 'L' and 1 or -1, grave)
  cell.place = tostring(cell.extra == 'L' and from_left or size - 1 - from_left)
end
local function put(cell)
  local at, size, from_left = tonumber(cell.place) or 0, redis.call('LLEN', cell.key), cell.extra == 'L'
  if at == 0 or at >= size then
    redis.call((at == 0) == from_left and 'LPUSH' or 'RPUSH', cell.key, cell.ident)
    return
  end
  -- Beside the entry that is there now, which stands for itself only while it has another value: others may equal it.
  local function index(number) return from_left and number or -1 - number end
  local pivot = redis.call('LINDEX', cell.key, index(at))
  redis.call('LSET', cell.key, index(at), grave)
  redis.call('LINSERT', cell.key, from_left and 'BEFORE' or 'AFTER', grave, cell.ident)
  redis.call('LSET', cell.key, index(at + 1), pivot)
end

local write = {
  field = function(cell, value)
    if value then redis.call('HSET', cell.key, cell.ident, value) else redis.call('HDEL', cell.key, cell.ident) end
  end,
  score = function(cell, value)
    if value then redis.call('ZADD', cell.key, value, cell.ident) else redis.call('ZREM', cell.key, cell.ident) end
  end,
  member = function(cell, value) redis.call(value and 'SADD' or 'SREM', cell.key, cell.ident) end,
  string = function(cell, value)
    if value then redis.call('SET', cell.key, value, 'KEEPTTL') else redis.call('DEL', cell.key) end
  end,
  -- Extra: "made" where this change makes the key, "later" there too or where it ends sooner, "ours" where it ends as
  -- this batch made it end.
  expiry = function(cell, value)
    local made, found, does = not was[cell.key].there, expires(cell.key), true
    if cell.extra == 'made' then does = made end
    if cell.extra == 'later' then does = made or found and tonumber(found) < tonumber(value) end
    if cell.extra == 'ours' then does = (found and '=' .. found or '-') == cell.before end
    if made or not does then cell.after = '~' end
    if not does then return end
    if value then redis.call('PEXPIREAT', cell.key, value) else redis.call('PERSIST', cell.key) end
  end,
  key = function(cell, value)
    if value then
      redis.call('RESTORE', cell.key, cell.place == '' and '0' or cell.place, value, 'ABSTTL')
    else
      cell.before, cell.place = '=' .. redis.call('DUMP', cell.key), expires(cell.key) or ''
      redis.call('UNLINK', cell.key)
    end
  end,
  entry = function(cell, value) if value then put(cell) else take(cell) end end,
  pending = function(cell, value)
    if not value then redis.call('XACK', cell.key, cell.extra, cell.ident) return end
    -- One that was deleted, too, came back under another id: a group is given it as a new one.
    if #redis.call('XRANGE', cell.key, cell.ident, cell.ident) == 0 then return end
    local count, consumer = value:match('^(%d+):(.*)$')
    redis.call(
      'XCLAIM', cell.key, cell.extra, consumer, 0, cell.ident, 'TIME', cell.place, 'RETRYCOUNT', count, 'FORCE', 'JUSTID'
    )
  end,
  stream = function(cell, value)
    if not value then redis.call('XDEL', cell.key, cell.ident) return end
    cell.ident, cell.extra = redis.call('XADD', cell.key, '*', unpack(unpacked(value))), 'made'
  end,
  rename = function(cell, value)
    redis.call('RENAME', value and cell.ident or cell.key, value and cell.key or cell.ident)
  end,
  effect = function(cell, value)
    local call = unpacked(value)
    if cell.key then table.insert(call, 1, cell.key) end
    local found = redis.pcall(cell.ident, unpack(call))
    if type(found) == 'table' and found.err then failed = found.err end
  end,
}
for _, cell in ipairs(writes) do
  if cell.before == '?' then cell.before = cell.found and '=' .. cell.found or '-' end
  if cell.before ~= cell.after then write[cell.kind](cell, cell.after ~= '-' and cell.after:sub(2)) end
end

if mode == 'once' then return { 0, 0, 0, failed } end
if undoes then
  redis.call('HDEL', undo, place)
  redis.call('HINCRBY', undo, 'restored', 1)
  return { 0, tonumber(redis.call('HGET', undo, 'bytes') or 0), 0, failed }
end
local kept = { ARGV[5] }
local function keep(kind, key, ident, before, after, part, extra, at)
  for _, value in ipairs({ kind, key, ident, after, before, part, extra, at }) do kept[#kept + 1] = value end
end
-- A key that went with its last entry comes back with the time to live that it had.
for key, had in pairs(was) do
  if had.expires and not there(key) then keep('expiry', key, '', '=' .. had.expires, '-', '', 'made', '') end
end
for number = #cells, 1, -1 do
  local cell = cells[number]
  if cell.after ~= '~' and cell.kind ~= 'effect' then
    local extra = cell.kind == 'expiry' and cell.before ~= '~' and 'ours' or cell.extra
    keep(cell.kind, cell.key, cell.ident, cell.before, cell.after, cell.part, extra, cell.place)
  end
end
local text = packed(kept)
local total = tonumber(redis.call('HGET', undo, 'bytes') or 0)
local fits = total + #text <= tonumber(ARGV[4])
redis.call('HSET', undo, place, fits and text or '')
if fits then total = redis.call('HINCRBY', undo, 'bytes', #text) end
redis.call('PEXPIRE', undo, ARGV[3])
return { 0, total, fits and 1 or 0, failed }
