#!lua
-- One change of the list of schedules. A definition is opaque here; the state of its runs is a line of text:
-- `enabled since run at missed made outcome id`, with `-` for what is missing.
-- KEYS: qdeck:schedules (hash: name → definition, JSON) · {qdeck:schedules}:state (hash: name → that line; its field
--       with the empty name counts the changes of definitions, so that tickers need to read nothing else while idle)
-- ARGV: verb, name, then
--   put      definition, the definition that it replaces (`*` any, `-` none) → made, changed, same or other
--   remove                                                                 → ok or gone
--   enable   1 or 0; runs from now on count                                → ok, same or gone
--   start    ms: runs from then on count                                   → ok or gone
--   record   run, how many were missed, made, id or - (only a later run)   → ok, same or gone
--   ran      id of a job that was made outside the schedule                → ok, same or gone
--   outcome  id, outcome (only of the job that was made last)              → ok, same or gone
-- reply: now, word
local DEFS, STATE = KEYS[1], KEYS[2]
local verb, name = ARGV[1], ARGV[2]
local MOST = 1000
local t = redis.call('TIME')
local NOW = t[1] * 1000 + math.floor(t[2] / 1000)
local STAMP = string.format('%.0f', NOW)

local text = redis.call('HGET', DEFS, name)
local s = {}
for word in string.gmatch(redis.call('HGET', STATE, name) or ('1 ' .. STAMP .. ' 0 0 0 0 - -'), '%S+') do
  s[#s + 1] = word
end
-- Numbers of at most 15 digits; one that cannot be read is reset.
for field, default in ipairs({ '1', STAMP, '0', '0', '0', '0' }) do
  local word = s[field]
  if not word or #word > 15 or not string.find(word, '^%d+$') then s[field] = default end
end
s[7], s[8] = s[7] or '-', s[8] or '-'
local function keep()
  redis.call('HSET', STATE, name, table.concat(s, ' '))
end
local function changed()
  if type(redis.pcall('HINCRBY', STATE, '', 1)) == 'table' then redis.call('HSET', STATE, '', NOW) end
end
local function plus(field, more)
  s[field] = string.format('%.0f', tonumber(s[field]) + tonumber(more))
end

if verb == 'put' then
  local def, old = ARGV[3], ARGV[4]
  if text == def then return { NOW, 'same' } end
  if old ~= '*' and old ~= (text or '-') then return { NOW, 'other' } end
  if not text and redis.call('HLEN', DEFS) >= MOST then
    return redis.error_reply('QDECK there are ' .. MOST .. ' schedules, the most a server keeps')
  end
  redis.call('HSET', DEFS, name, def)
  s[2] = STAMP
  keep()
  changed()
  return { NOW, text and 'changed' or 'made' }
end
if not text then return { NOW, 'gone' } end
if verb == 'remove' then
  redis.call('HDEL', DEFS, name)
  redis.call('HDEL', STATE, name)
  changed()
elseif verb == 'enable' then
  if s[1] == ARGV[3] then return { NOW, 'same' } end
  s[1] = ARGV[3]
  s[2] = STAMP
  keep()
  changed()
elseif verb == 'start' then
  s[2] = ARGV[3]
  keep()
  changed()
elseif verb == 'record' then
  -- A run far ahead was recorded while the clock was wrong.
  if tonumber(ARGV[3]) <= tonumber(s[3]) and tonumber(s[3]) <= NOW / 1000 + 120 then return { NOW, 'same' } end
  s[3] = ARGV[3]
  plus(5, ARGV[4])
  plus(6, ARGV[5])
  if ARGV[6] ~= '-' then s[4], s[7], s[8] = STAMP, '-', ARGV[6] end
  keep()
elseif verb == 'ran' then
  if s[8] == ARGV[3] then return { NOW, 'same' } end
  plus(6, 1)
  s[4], s[7], s[8] = STAMP, '-', ARGV[3]
  keep()
elseif verb == 'outcome' then
  if s[8] ~= ARGV[3] or s[7] == ARGV[4] then return { NOW, 'same' } end
  s[7] = ARGV[4]
  keep()
end
return { NOW, 'ok' }
