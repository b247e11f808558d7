# Varnish 7 with the module xkey (Debian: varnish, varnish-modules) in front of terse; see docs/cdn.md.
vcl 4.1;

import std;
import xkey;

backend terse {
    .host = "127.0.0.1";
    .port = "8080";
}

# The terse nodes with the role worker, which send purges.
acl terse_workers {
    "127.0.0.1";
}

sub vcl_recv {
    if (req.url == "/.terse/purge") {
        if (req.method != "POST" || client.ip !~ terse_workers) {
            return (synth(403));
        }
        # With cdn.token, compare it here:
        # if (req.http.Terse-Purge-Token != "…") { return (synth(403)); }
        if (req.http.Terse-Purge == "all") {
            ban("obj.status != 0");
            return (synth(200, "Everything purged"));
        }
        set req.http.Terse-Purged = xkey.purge(req.http.Terse-Purge);
        return (synth(200, "Purged " + req.http.Terse-Purged));
    }
    unset req.http.Terse-Purge-Token;
}

sub vcl_backend_response {
    # terse says with CDN-Cache-Control what an edge may keep. Its Cache-Control is for browsers.
    if (beresp.http.CDN-Cache-Control ~ "max-age=[0-9]+") {
        set beresp.ttl = std.duration(
            regsub(beresp.http.CDN-Cache-Control, "^.*max-age=([0-9]+).*$", "\1s"), 0s);
        # A purged or outdated link is never served.
        set beresp.grace = 0s;
        set beresp.keep = 0s;
        set beresp.http.xkey = beresp.http.Surrogate-Key;
        return (deliver);
    }
}

sub vcl_deliver {
    # Browsers need none of these.
    unset resp.http.xkey;
    unset resp.http.Surrogate-Key;
    unset resp.http.Cache-Tag;
    unset resp.http.CDN-Cache-Control;
}
