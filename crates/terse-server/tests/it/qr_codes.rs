//! QR codes, read back by a decoder.

use serde_json::{Value, json};
use terse_core::{Logo, Operator};

use crate::web::Web;

#[tokio::test]
async fn a_qr_code_can_be_read_back() {
    let web = Web::new();
    let code = "a".repeat(64);
    for alias in ["abc", &code] {
        assert_eq!(
            web.api(
                "POST /api/v1/urls",
                json!({"long_url": "https://example.com/", "custom_alias": alias})
            )
            .await
            .status,
            201
        );
        let want = format!("https://go.example/{alias}");
        for query in [
            "",
            "size=64&margin=16",
            "size=300&margin=0&level=H",
            "size=2048&level=L&fg=%230a1b2c&bg=ffeedd",
            "level=Q",
        ] {
            let png = web.page(&format!("/{alias}/qr?format=png&{query}")).await;
            assert_eq!((png.status.as_u16(), png.header("content-type")), (200, "image/png"));
            assert_eq!(read(&from_png(&png.bytes)), want, "png {query}");
            let svg = web.page(&format!("/{alias}/qr?{query}")).await;
            assert_eq!((svg.status.as_u16(), svg.header("content-type")), (200, "image/svg+xml"));
            assert_eq!(read(&from_svg(&svg.text())), want, "svg {query}");
        }
    }
    let answer = web.page("/abc/qr?format=png&size=500").await;
    assert_eq!(answer.header("cache-control"), "public, max-age=86400");
    assert_eq!(from_png(&answer.bytes).len(), 500);
    let again = web
        .call("GET /abc/qr?format=png&size=500", &[("if-none-match", answer.header("etag"))], "")
        .await;
    assert_eq!((again.status.as_u16(), again.bytes.len()), (304, 0));
    for (query, field) in [
        ("format=gif", "format"),
        ("size=63", "size"),
        ("size=2049", "size"),
        ("margin=17", "margin"),
        ("margin=-1", "margin"),
        ("level=m", "level"),
        ("fg=red", "fg"),
        ("bg=%23fff", "bg"),
        ("fg=ffffff&bg=000000", "fg"),
        ("fg=cccccc", "fg"),
        ("fg=000000&bg=111111", "fg"),
        ("logo=yes", "logo"),
        ("logo=true", "logo"),
        ("logo=true&level=M", "level"),
        ("x=1", "x"),
    ] {
        web.page(&format!("/abc/qr?{query}")).await.is_problem(400, "invalid_request", field);
    }
    web.page("/none/qr").await.is_problem(404, "not_found", "");
    assert_eq!(web.api("DELETE /api/v1/urls/abc", Value::Null).await.status, 204);
    web.page("/abc/qr").await.is_problem(404, "not_found", "");
}

/// A green square of 32 pixels with a transparent border.
fn logo_png() -> Vec<u8> {
    let inside = |n: usize| (4..28).contains(&n);
    let pixels: Vec<u8> = (0..32 * 32)
        .flat_map(|n| match inside(n / 32) && inside(n % 32) {
            true => [0, 200, 0, 255],
            false => [9, 9, 9, 0],
        })
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 32, 32);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

#[tokio::test]
async fn a_qr_code_with_the_logo_in_the_middle_can_be_read_back() {
    let logo = Some(Logo::parse(logo_png()).unwrap());
    let web = Web::run_by(Operator { logo, ..Operator::default() });
    let code = "a".repeat(64);
    for alias in ["abc", &code] {
        let link = json!({"long_url": "https://example.com/", "custom_alias": alias});
        assert_eq!(web.api("POST /api/v1/urls", link).await.status, 201);
        let want = format!("https://go.example/{alias}");
        for query in ["size=300", "size=1024&margin=2&fg=0a1b2c&bg=ffeedd"] {
            let png = web.page(&format!("/{alias}/qr?format=png&logo=true&{query}")).await;
            assert_eq!(png.status, 200, "{}", png.text());
            let mut reader =
                png::Decoder::new(std::io::Cursor::new(&png.bytes)).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).unwrap();
            assert_eq!(info.color_type, png::ColorType::Rgb);
            let width = info.width as usize;
            let middle = &pixels[3 * (width / 2 * width + width / 2)..][..3];
            assert_eq!(middle, [0, 200, 0], "the logo is there");
            let rows: Vec<Vec<bool>> = pixels
                .chunks(3 * width)
                .map(|row| row.chunks(3).map(|pixel| pixel[1] < 100).collect())
                .collect();
            assert_eq!(read(&rows), want, "png {query}");
            let svg = web.page(&format!("/{alias}/qr?logo=true&{query}")).await.text();
            assert!(svg.contains("href=\"data:image/png;base64,"), "{svg}");
        }
    }
    let logo = Some(Logo::parse(b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec()).unwrap());
    let web = Web::run_by(Operator { logo, ..Operator::default() });
    let link = json!({"long_url": "https://example.com/", "custom_alias": "abc"});
    assert_eq!(web.api("POST /api/v1/urls", link).await.status, 201);
    assert_eq!(web.page("/abc/qr?logo=true").await.status, 200);
    let refused = web.page("/abc/qr?logo=true&format=png").await;
    refused.is_problem(400, "invalid_request", "logo");
}

/// Rows of dark pixels.
fn from_png(bytes: &[u8]) -> Vec<Vec<bool>> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Indexed, png::BitDepth::One));
    let palette = reader.info().palette.clone().unwrap();
    let dark = [palette[0] < 128, palette[3] < 128];
    assert_ne!(dark[0], dark[1], "ink and paper differ");
    let pixel = |row: &[u8], x: usize| dark[usize::from(row[x / 8] & (0x80 >> (x % 8)) != 0)];
    pixels
        .chunks(info.line_size)
        .map(|row| (0..info.width as usize).map(|x| pixel(row, x)).collect())
        .collect()
}

/// Draws the path of runs again, each module four pixels wide.
fn from_svg(text: &str) -> Vec<Vec<bool>> {
    let across: usize =
        text.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut rows = vec![vec![false; across * 4]; across * 4];
    assert!(
        text.contains("fill=\"#000000\" d=\"M") || text.contains("fill=\"#0a1b2c\" d=\"M"),
        "the runs are in ink"
    );
    let path = text.rsplit(" d=\"").next().unwrap().split('"').next().unwrap();
    for run in path.split('z').filter(|run| !run.is_empty()) {
        let (x, rest) = run.strip_prefix('M').unwrap().split_once(' ').unwrap();
        let (y, rest) = rest.split_once('h').unwrap();
        let length: usize = rest.split('v').next().unwrap().parse().unwrap();
        let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
        for row in &mut rows[y * 4..y * 4 + 4] {
            row[x * 4..(x + length) * 4].fill(true);
        }
    }
    rows
}

/// Reads the code with a quiet zone around it, large enough for the decoder.
fn read(rows: &[Vec<bool>]) -> String {
    let (zone, zoom) = (40, if rows.len() < 200 { 4 } else { 1 });
    let size = rows.len() * zoom + 2 * zone;
    let dark = |x: usize, y: usize| {
        let inside = |n: usize| n.checked_sub(zone).map(|n| n / zoom).filter(|n| *n < rows.len());
        inside(x).zip(inside(y)).is_some_and(|(x, y)| rows[y][x])
    };
    let mut image = rqrr::PreparedImage::prepare_from_bitmap(size, size, dark);
    let grids = image.detect_grids();
    assert_eq!(grids.len(), 1, "one code is seen");
    grids[0].decode().unwrap().1
}
