//! Finds the ends of answers in what a connection receives.

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// What is known of the answer that a connection receives.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// A head that has not ended yet.
    head: Vec<u8>,
    /// How much of the body is missing.
    body_left: usize,
    /// What the head said, while the body is missing.
    is_wrong: bool,
}

/// An answer that has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// With the expected status.
    Right,
    Wrong,
}

impl Answer {
    /// Takes in received bytes. Returns the answer that ends with them, if one does. Requests are
    /// not pipelined, so bytes after it are an error.
    pub(crate) fn receive(&mut self, bytes: &[u8], status: &[u8; 3]) -> Option<Ended> {
        if self.body_left > 0 {
            return self.receive_body(bytes.len());
        }
        // Most answers are one piece without a body.
        if self.head.is_empty() && bytes.ends_with(END) && body_length(bytes) == Some(0) {
            return Some(check_answer(bytes, status));
        }
        self.head.extend_from_slice(bytes);
        let end = self.head.windows(END.len()).position(|window| window == END)? + END.len();
        let (head, beyond) = (self.head[..end].to_vec(), self.head.len() - end);
        self.head.clear();
        self.body_left = body_length(&head).unwrap_or(0);
        let ended = check_answer(&head, status);
        self.is_wrong = ended == Ended::Wrong;
        match (self.body_left, beyond) {
            (0, 0) => Some(ended),
            (0, _) => Some(Ended::Wrong),
            (_, 0) => None,
            (_, beyond) => self.receive_body(beyond),
        }
    }

    fn receive_body(&mut self, count: usize) -> Option<Ended> {
        self.is_wrong |= count > self.body_left;
        self.body_left = self.body_left.saturating_sub(count);
        let ended = if self.is_wrong { Ended::Wrong } else { Ended::Right };
        (self.body_left == 0).then_some(ended)
    }
}

fn check_answer(head: &[u8], status: &[u8; 3]) -> Ended {
    let is_right = head.starts_with(b"HTTP/1.1 ") && head.get(9..12) == Some(&status[..]);
    if is_right { Ended::Right } else { Ended::Wrong }
}

/// The value of Content-Length.
fn body_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))?;
    std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_their_bodies_end_however_they_are_cut() {
        let answer = b"HTTP/1.1 302 Found\r\ncontent-Length: 5\r\nLocation: x\r\n\r\nhello";
        for cut in 1..answer.len() {
            let mut state = Answer::default();
            for _ in 0..2 {
                assert_eq!(state.receive(&answer[..cut], b"302"), None, "{cut}");
                let ended = state.receive(&answer[cut..], b"302");
                assert_eq!(ended, Some(Ended::Right), "{cut}");
            }
            assert_eq!(state.receive(&answer[..cut], b"301"), None, "{cut}");
            assert_eq!(state.receive(&answer[cut..], b"301"), Some(Ended::Wrong), "{cut}");
        }
        let empty = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(Answer::default().receive(empty, b"302"), Some(Ended::Right));
        assert_eq!(Answer::default().receive(empty, b"404"), Some(Ended::Wrong));
        let more = [&empty[..], b"x"].concat();
        assert_eq!(Answer::default().receive(&more, b"302"), Some(Ended::Wrong));
    }
}
