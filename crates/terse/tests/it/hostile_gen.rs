//! Generated large inputs: `gen:name(arguments)`.

/// The text of an input.
pub(crate) fn text(input: &str) -> String {
    String::from_utf8(bytes(input)).expect("text")
}

/// The bytes of an input; an input without `gen:` is literal.
pub(crate) fn bytes(input: &str) -> Vec<u8> {
    let Some((name, arguments)) = call(input) else { return input.as_bytes().to_vec() };
    let number = arguments
        .last()
        .and_then(|last| last.rsplit('=').next()?.parse::<usize>().ok())
        .unwrap_or(0);
    match name {
        "url" => {
            let start = "https://example.com/";
            format!("{start}{}", "a".repeat(number - start.len())).into_bytes()
        }
        "str" => arguments[0].repeat(number).into_bytes(),
        "header" => {
            let before = if arguments.len() == 3 { &*arguments[1] } else { "" };
            format!("{}: {before}{}", arguments[0], "a".repeat(number)).into_bytes()
        }
        "json_keys" => object((0..number).map(|i| format!("k{i}"))),
        // Built from two pieces that collide in multiply-by-31 hashes.
        "json_colliding_keys" => object((0..number).map(|i| {
            (0..17).map(|bit| if i >> bit & 1 == 0 { "Aa" } else { "BB" }).collect::<String>()
        })),
        "json_nested_array" => ["[".repeat(number), "]".repeat(number)].concat().into_bytes(),
        "utf8_invalid_json" => b"{\"long_url\":\"https://example.com/\xc3\x28\"}".to_vec(),
        "bulk" => {
            let items: Vec<_> = (0..number)
                .map(|i| format!(r#"{{"long_url":"https://example.com/{i}"}}"#))
                .collect();
            format!("[{}]", items.join(",")).into_bytes()
        }
        "csv_one_row" => {
            format!("long_url,title\nhttps://example.com/,{}\n", "a".repeat(number)).into_bytes()
        }
        "csv_columns" => {
            format!("long_url{}\nhttps://example.com/\n", ",c".repeat(number)).into_bytes()
        }
        "csv_invalid_utf8" => {
            b"long_url,alias,title\nhttps://example.com/,imp300,\xff\xfe\n".to_vec()
        }
        // The start of a compressed file is enough to recognise it.
        "gzip_csv" => {
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\xc9\xcf\x4b\x8f\x2f\x2d\xca\xe1\x02\x00"
                .to_vec()
        }
        other => panic!("unknown generator gen:{other}"),
    }
}

/// `gen:chunked_body(total=…)`: a chunked request.
pub(crate) fn chunked(input: &str) -> Vec<u8> {
    let total = call(input)
        .and_then(|(_, arguments)| arguments[0].rsplit('=').next()?.parse::<usize>().ok())
        .expect("a total");
    let key = crate::harness::KEY;
    let mut bytes = format!(
        "POST /api/v1/urls HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: \
         application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        crate::harness::HOST
    )
    .into_bytes();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 65_536], b"\r\n"].concat();
    for _ in 0..total / 65_536 {
        bytes.extend(&chunk);
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

fn call(input: &str) -> Option<(&str, Vec<String>)> {
    let (name, arguments) = input.strip_prefix("gen:")?.strip_suffix(')')?.split_once('(')?;
    let arguments = arguments.split(',').map(|argument| argument.trim_matches('\'').to_owned());
    Some((name, arguments.collect()))
}

fn object(keys: impl Iterator<Item = String>) -> Vec<u8> {
    let fields: Vec<_> = keys.map(|key| format!("\"{key}\":1")).collect();
    format!("{{\"long_url\":\"https://example.com/\",{}}}", fields.join(",")).into_bytes()
}
