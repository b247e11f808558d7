-- wrk asks for links: wrk … -s bench/paths.lua URL -- PICK FILE [close] [browser]
--
-- PICK is zipf, uniform, single or unknown; FILE has one path per line, the most popular first. The same script for every
-- server, so that the client costs the same whoever answers. Ends with one line of JSON on standard output.

local MOST_PREPARED = 250000 -- more paths than this are cut out of one string, since LuaJIT's memory is small
local BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

-- What a browser sends, most of which a click is made of.
local BROWSER = {
  ["User-Agent"] = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
  ["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
  ["Accept-Language"] = "de-DE,de;q=0.9,en;q=0.8",
  ["Accept-Encoding"] = "gzip, deflate, br",
  ["Referer"] = "https://news.example/a/page?with=parameters",
  ["Sec-Fetch-Mode"] = "navigate",
}

local random, exp, log, floor = math.random, math.exp, math.log, math.floor
local before, after          -- a request, around its path
local text, width, count     -- all paths, one of them with its newline, how many
local prepared               -- whole requests, where they fit
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local function read(file)
  local handle = assert(io.open(file, "rb"))
  text = handle:read("*a")
  handle:close()
  width = assert(text:find("\n", 1, true), "the file of paths has no lines")
  count = #text / width
  local regular = count == floor(count) and select(2, text:sub(1, width * 1000):gsub("\n", "")) == math.min(count, 1000)
  if regular and count > MOST_PREPARED then return end
  prepared = {}
  for path in text:gmatch("[^\n]+") do
    prepared[#prepared + 1] = before .. path .. after
    assert(#prepared <= MOST_PREPARED, "so many paths must all have the same length")
  end
  count, text = #prepared, nil
end

local function path_request(index) -- from 1
  if prepared then return prepared[index] end
  return before .. text:sub((index - 1) * width + 1, index * width - 1) .. after
end

-- Ranks 1 to n, the k-th drawn 1/k as often as the first: rejection-inversion, as in terse bench.
local function zipf(n)
  local low, high, squeeze = log(1.5) - 1, log(n + 0.5), 2 - exp(log(2.5) - 0.5)
  return function()
    while true do
      local area = high + random() * (low - high)
      local point = exp(area)
      local rank = floor(point + 0.5)
      if rank < 1 then rank = 1 elseif rank > n then rank = n end
      if rank - point <= squeeze or area >= log(rank + 0.5) - 1 / rank then return path_request(rank) end
    end
  end
end

-- Seven characters from three pieces: one concatenation, so that a scanner costs the client little more than a visitor.
local function unknown()
  local triples, n = {}, 0
  for a in BASE62:gmatch(".") do
    for b in BASE62:gmatch(".") do
      for c in BASE62:gmatch(".") do
        n = n + 1
        triples[n] = a .. b .. c
      end
    end
  end
  local head = before .. "/"
  return function() return head .. triples[random(n)] .. triples[random(n)] .. triples[random(62)]:sub(3) .. after end
end

function init(args)
  -- Every thread, and every round, tries others: unknown codes seen before would be remembered.
  math.randomseed(os.time() * 64 + number)
  for index = 3, #args do
    if args[index] == "close" then wrk.headers["Connection"] = "close" end
    if args[index] == "browser" then
      for name, value in pairs(BROWSER) do wrk.headers[name] = value end
    end
  end
  local whole = wrk.format("GET", "/PATH")
  local from, to = whole:find("/PATH", 1, true)
  before, after = whole:sub(1, from - 1), whole:sub(to + 1)
  local pick = args[1]
  if pick == "unknown" then
    request = unknown()
  else
    read(assert(args[2], "no file of paths"))
    if pick == "zipf" then request = zipf(count)
    elseif pick == "uniform" then request = function() return path_request(random(count)) end
    elseif pick == "single" then
      local only = path_request(1)
      request = function() return only end
    else error("unknown pick " .. tostring(pick)) end
  end
  -- wrk has looked for the global before this function ran.
  wrk.request = request
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d,"max_us":%d,"status":%d,"connection":%d,"timeout":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99), latency.max,
    errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
