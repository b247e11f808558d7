use proptest::prelude::*;

use super::*;

fn read(text: &str) -> ParsedList {
    parse(
        "test",
        text.as_bytes(),
        &ProtectedHosts { own_hosts: vec!["go.short.example".into()], allow_platforms: false },
    )
}

fn entries_of(list: &ParsedList) -> Vec<String> {
    list.entries()
        .map(|entry| match entry {
            ListEntry::Host(host) => host.to_owned(),
            ListEntry::Url(url) => format!("url:{url}"),
        })
        .collect()
}

#[track_caller]
fn check(text: &str, kind: ListKind, entries: &[&str], skipped: usize) {
    let list = read(text);
    assert_eq!(
        (list.kind(), entries_of(&list), list.skipped()),
        (kind, entries.iter().map(|e| (*e).to_owned()).collect(), skipped)
    );
    assert_eq!(list.len(), entries.len());
}

#[test]
fn a_hosts_file_gives_its_names() {
    check(
        "# a head\r\n127.0.0.1 localhost\r\n::1 localhost ip6-localhost\r\n0.0.0.0 0.0.0.0\r\n\r\n\
         0.0.0.0 Bad.Example # why\r\n127.0.0.1\tone.example two.example.\r\n:: \
         three.example\r\n10.0.0.1 nas.company.example\r\n",
        ListKind::Hosts,
        &["bad.example", "one.example", "two.example", "three.example"],
        5,
    );
}

#[test]
fn a_domain_list_gives_its_domains() {
    check(
        "\u{feff}! head\n; head\n# \
         head\nbad.example\n*.wild.example\n.dot.example\n||blocked.example^\n\
         ||ads.example^$third-party\n\
         @@||fine.example^\nmünchen.de\n8.8.4.4\n2620:fe::9\nnot a domain\n",
        ListKind::Domains,
        &[
            "bad.example",
            "wild.example",
            "dot.example",
            "blocked.example",
            "xn--mnchen-3ya.de",
            "8.8.4.4",
            "[2620:fe::9]",
        ],
        3,
    );
}

#[test]
fn a_url_list_gives_urls_and_not_their_hosts() {
    check(
        "http://Bad.example/Login.php?id=1#top\nhttps://u:p@bad.example:8443/x\n\
         http://root.example\nbad.example/path\n\
         http://empty.example/a?\nftp://bad.example/\nhttp://\n",
        ListKind::Urls,
        &[
            "url:bad.example/Login.php?id=1",
            "url:bad.example:8443/x",
            "url:root.example/",
            "url:bad.example/path",
            "url:empty.example/a",
        ],
        2,
    );
}

#[test]
fn phishtank_rows_give_their_url() {
    check(
        "phish_id,url,phish_detail_url,submission_time,verified,verification_time,online,target\n\
         1,http://bad.example/a,http://www.phishtank.example/1,2024-01-01,yes,2024-01-01,yes,\
         Other\n\
         2,\"http://bad.example/?a=1,2\",http://www.phishtank.example/2,2024-01-01,yes,2024-01-01,\
          yes,\"A, B\"\n\
         3,http://doubt.example/,http://www.phishtank.example/3,2024-01-01,no,,yes,Other\n\
         4\n",
        ListKind::PhishTank,
        &["url:bad.example/a", "url:bad.example/?a=1,2"],
        2,
    );
}

#[test]
fn urlhaus_rows_give_their_url() {
    let rows = "\"1\",\"2024-01-01 \
        00:00:00\",\"http://8.8.4.4:4000/bin.sh\",\"online\",\"\",\"malware_download\",\"elf\",\
        \"https://urlhaus.example/1/\",\"x\"\n\
                \"2\",\"2024-01-01 \
                00:00:00\",\"https://bad.example/say\"\"hi\",\"offline\",\"\",\"malware_download\",\
                \"None\",\"https://urlhaus.example/2/\",\"x\"\n";
    let entries = ["url:8.8.4.4:4000/bin.sh", "url:bad.example/say%22hi"];
    check(
        &format!(
            "####\n# URLhaus, a feed\n# \
             id,dateadded,url,url_status,last_online,threat,tags,urlhaus_link,reporter\n{rows}"
        ),
        ListKind::UrlHaus,
        &entries,
        0,
    );
    check(&format!("id,dateadded,url,url_status\n{rows}"), ListKind::UrlHaus, &entries, 0);
    check(rows, ListKind::UrlHaus, &entries, 0);
}

#[test]
fn a_stray_quote_loses_only_its_line() {
    check(
        "# id,dateadded,url,url_status\n\"1\",\"x,http://lost.example/,\"online\n\
         2,x,http://bad.example/,online\n",
        ListKind::UrlHaus,
        &["url:bad.example/"],
        1,
    );
}

#[test]
fn a_row_with_too_many_fields_is_skipped() {
    let wide = "1,".repeat(40);
    check(
        &format!("# id,dateadded,url\n{wide}\n2,x,http://bad.example/\n"),
        ListKind::UrlHaus,
        &["url:bad.example/"],
        1,
    );
}

#[test]
fn overlong_lines_and_names_are_skipped() {
    let line = "0.0.0.0 ".to_owned() + &"a.example ".repeat(2_000);
    check(&format!("{line}\n0.0.0.0 bad.example"), ListKind::Hosts, &["bad.example"], 1);
    let name: String = ('\u{4e00}'..).take(2_000).collect();
    check(
        &format!("{name}.example\nhttp://{name}.example/\nhttp:\\\\{name}.example/\nbad.example"),
        ListKind::Urls,
        &["bad.example"],
        3,
    );
}

#[test]
fn a_name_of_invisible_characters_is_skipped_before_parsing() {
    let name = format!("b{}ad.example", "\u{ad}".repeat(600));
    check(
        &format!("{name}\nhttp://{name}/\nb\u{ad}ad.example"),
        ListKind::Domains,
        &["bad.example"],
        2,
    );
}

#[test]
fn invalid_names_are_skipped_in_urls_too() {
    let name: String = ('\u{4e00}'..).take(64).collect();
    check(
        &format!("http://{name}.example/\nhttp://a..example/\nhttp://bad.example/"),
        ListKind::Urls,
        &["url:bad.example/"],
        2,
    );
}

#[test]
fn a_broken_feed_cannot_block_protected_hosts() {
    check(
        "com\nco.uk\ngithub.io\n*.com\n.\nlocalhost\nprinter.local\nai\n127.0.0.1\n10.1.2.3\n::1\n\
         0\n",
        ListKind::Unknown,
        &[],
        12,
    );
    check(
        "go.short.example\nshort.example\nhttps://go.short.example/x\na.go.short.example",
        ListKind::Domains,
        &["a.go.short.example"],
        3,
    );
    check(
        "<!doctype html>\n<html><body>\n<h1>403 Forbidden</h1>\n</body></html>\n",
        ListKind::Unknown,
        &[],
        4,
    );
    let own = parse(
        "own",
        b"github.io\ncom",
        &ProtectedHosts { allow_platforms: true, ..ProtectedHosts::default() },
    );
    assert_eq!((entries_of(&own), own.skipped()), (vec!["github.io".to_owned()], 1));
}

#[test]
fn bytes_that_are_not_utf8_are_skipped() {
    let protected = ProtectedHosts::default();
    let mut bytes =
        b"bad.example\nnul\0.example\nlatin\xe9.example\ngood.example # caf\xe9\n".to_vec();
    bytes.extend(b"a".repeat(1 << 20));
    bytes.extend(b"\nlast.example");
    let list = parse("test", &bytes, &protected);
    assert_eq!(
        (entries_of(&list).join(" "), list.skipped()),
        ("bad.example good.example last.example".into(), 3)
    );
    let wide: Vec<u8> =
        "bad.example\nworse.example\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(parse("test", &wide, &protected).is_empty());
}

#[test]
fn a_million_lines_are_read() {
    let text: String = (0..1_000_000).map(|number| format!("host-{number}.example\n")).collect();
    assert_eq!(read(&text).len(), 1_000_000);
}

#[test]
fn entries_beyond_the_limit_are_counted_as_skipped() {
    let list = parse_limited(
        4,
        "test",
        b"a.example\nb.example\nhttp://c.example/\n0.0.0.0 d.example e.example\nhttp://f.example/",
        &ProtectedHosts::default(),
    );
    assert_eq!((entries_of(&list).len(), list.len(), list.skipped()), (4, 4, 2));
}

proptest! {
    #[test]
    fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let list = parse("test", &bytes, &ProtectedHosts::default());
        prop_assert_eq!(list.entries().count(), list.len());
    }

    #[test]
    fn any_text_of_format_markers_is_handled(text in "(phish_id,|url|id,dateadded,|\"|,|\n\
     |#|\\|\\||\\^|http://|0\\.0\\.0\\.0 |[a-c.\\[\\]@:/?é\0 ]){0,60}") {
        let list = read(&text);
        prop_assert_eq!(list.entries().count(), list.len());
        for entry in list.entries() {
            match entry {
                ListEntry::Host(host) => {
                    prop_assert_eq!(crate::host_name::canonical(host), Some(host.to_owned()));
                }
                ListEntry::Url(url) => prop_assert!(Url::parse(&["http://", url].concat()).is_ok()),
            }
        }
    }
}
