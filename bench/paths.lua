-- Requests links with wrk: wrk … -s bench/paths.lua URL -- PICK FILE [close] [browser]
--
-- PICK is zipf, uniform, single or unknown; FILE has one path per line, the most popular first. All servers are measured
-- with this script, so that the client costs the same. Prints one line of JSON at the end.

local MAX_PREPARED = 250000 -- beyond this, paths are cut out of one string, because LuaJIT's memory is small
local BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

-- The headers of a browser, most of which become part of a click.
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
  width = assert(text:find("\n", 1, true), "the paths file has no lines")
  count = #text / width
  local regular = count == floor(count) and select(2, text:sub(1, width * 1000):gsub("\n", "")) == math.min(count, 1000)
  if regular and count > MAX_PREPARED then return end
  prepared = {}
  for path in text:gmatch("[^\n]+") do
    prepared[#prepared + 1] = before .. path .. after
    assert(#prepared <= MAX_PREPARED, "more than 250,000 paths must all have the same length")
  end
  count, text = #prepared, nil
end

local function path_request(index) -- from 1
  if prepared then return prepared[index] end
  return before .. text:sub((index - 1) * width + 1, index * width - 1) .. after
end

-- Zipf-distributed ranks 1 to n by rejection-inversion, as in terse bench.
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

-- Random codes of seven characters from three pieces: one concatenation, so that they cost the client little.
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
  -- Each thread and round uses other codes, because the server caches unknown codes.
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
    read(assert(args[2], "missing paths file"))
    if pick == "zipf" then request = zipf(count)
    elseif pick == "uniform" then request = function() return path_request(random(count)) end
    elseif pick == "single" then
      local only = path_request(1)
      request = function() return only end
    else error("unknown pick " .. tostring(pick)) end
  end
  -- wrk reads the global before it calls init.
  wrk.request = request
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d,"max_us":%d,"status":%d,"connection":%d,"timeout":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99), latency.max,
    errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
