//! User agents of browsers, each with its device, browser and system.

/// The enricher panics at a record with this user agent.
pub(crate) const PANICS: &[u8] = b"panics";

#[rustfmt::skip]
pub(crate) const BROWSERS: &[(&str, &str, &str, &str)] = &[
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/126.0.0.0 Safari/537.36", "desktop", "Chrome", "Windows"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/126.0.0.0 Safari/537.36 Edg/126.0.2592.68", "desktop", "Edge", "Windows"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 \
        Firefox/127.0", "desktop", "Firefox", "Windows"),
    ("Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko", "desktop", "IE", "Windows"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
        Version/17.5 Safari/605.1.15", "desktop", "Safari", "macOS"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/126.0.0.0 Safari/537.36 OPR/111.0.0.0", "desktop", "Opera", "macOS"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 \
        Safari/537.36", "desktop", "Chrome", "Linux"),
    ("Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:127.0) Gecko/20100101 \
        Firefox/127.0", "desktop", "Firefox", "Ubuntu"),
    ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/126.0.0.0 Safari/537.36", "desktop", "Chrome", "Chrome OS"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
        Gecko) Version/17.5 Mobile/15E148 Safari/604.1", "mobile", "Safari", "iOS"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
        Gecko) CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1", "mobile", "Chrome", "iOS"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
        Gecko) FxiOS/127.0 Mobile/15E148 Safari/605.1.15", "mobile", "Firefox", "iOS"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
        Gecko) Mobile/21F90 Instagram 336.0.8.30.100 (iPhone14,5; iOS 17_5_1; de_DE; de; \
        scale=3.00; 1170x2532; 610955465)", "mobile", "Instagram", "iOS"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
        Gecko) Mobile/21F90 \
        [FBAN/FBIOS;FBAV/469.0.0.37.106;FBBV/609366297;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;FBSV/17.5.1;FBSS/3;FBID/phone;FBLC/de_DE;FBOP/5;FBRV/611284632]", "mobile", "Facebook", "iOS"),
    ("Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
        Version/17.5 Mobile/15E148 Safari/604.1", "tablet", "Safari", "iOS"),
    ("Mozilla/5.0 (Linux; Android 14; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/126.0.0.0 Mobile Safari/537.36", "mobile", "Chrome", "Android"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 \
        Mobile Safari/537.36", "mobile", "Chrome", "Android"),
    ("Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S911B) AppleWebKit/537.36 (KHTML, like Gecko) \
        SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile \
        Safari/537.36", "mobile", "Samsung Internet", "Android"),
    ("Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 \
        Firefox/127.0", "mobile", "Firefox", "Android"),
    ("Mozilla/5.0 (Linux; Android 13; SM-A536B Build/TP1A.220624.014; wv) AppleWebKit/537.36 \
        (KHTML, like Gecko) Version/4.0 Chrome/126.0.6478.71 Mobile \
        Safari/537.36", "mobile", "Android WebView", "Android"),
    ("Mozilla/5.0 (Linux; Android 10; HD1913) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/125.0.6422.165 Mobile Safari/537.36 \
        EdgA/125.0.2535.87", "mobile", "Edge", "Android"),
    ("Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/126.0.0.0 Safari/537.36", "tablet", "Chrome", "Android"),
    ("Mozilla/5.0 (Linux; Android 9; KFMAWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/126.2.1 \
        like Chrome/126.0.6478.122 Safari/537.36", "tablet", "Amazon Silk", "Android"),
    ("Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) \
        SamsungBrowser/4.0 Chrome/94.0.4606.31 TV \
        Safari/537.36", "tv", "Samsung Internet", "Tizen"),
    ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/94.0.4606.128 Safari/537.36 WebAppManager", "tv", "Chrome", "webOS"),
    ("Mozilla/5.0 (Linux; Android 9; AFTKA) AppleWebKit/537.36 (KHTML, like Gecko) Silk/126.2.1 \
        like Chrome/126.0.6478.122 Safari/537.36", "tv", "Amazon Silk", "Android"),
    ("Mozilla/5.0 (PlayStation; PlayStation 5/6.50) AppleWebKit/605.1.15 (KHTML, like Gecko) \
        Version/15.4 Safari/605.1.15", "console", "Safari", ""),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like \
        Gecko) Chrome/48.0.2564.82 Safari/537.36 Edge/20.02", "console", "Edge", "Windows"),
    ("Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/609.4 (KHTML, like Gecko) \
        NF/6.0.3.15.4 NintendoBrowser/5.1.0.22474", "console", "", ""),
    ("Mozilla/5.0 (Linux; Android 12; Quest 3) AppleWebKit/537.36 (KHTML, like Gecko) \
        OculusBrowser/33.0.0.29.45 Chrome/126.0.6478.122 VR \
        Safari/537.36", "headset", "Chrome", "Android"),
    ("Opera/9.80 (J2ME/MIDP; Opera Mini/7.1.32052/29.3709; U; en) Presto/2.8.119 \
        Version/11.10", "mobile", "Opera Mini", ""),
];
