#!lua flags=allow-oom
-- Finds the commands that the user of this connection may not run.
-- keys: any one that the user may use
-- args: names of commands, such as `set` or `memory|usage`
-- reply: those that are not allowed
local denied = {}
for _, name in ipairs(ARGV) do
  local call = {}
  for word in string.gmatch(name, '[^|]+') do call[#call + 1] = word end
  call[#call + 1] = KEYS[1]
  if not redis.acl_check_cmd(unpack(call)) then denied[#denied + 1] = name end
end
return denied
