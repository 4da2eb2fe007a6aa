//! Text in the room that there is.

use ratatui::text::Line;

/// Cells of a terminal that a text takes.
pub(super) fn width(text: &str) -> usize {
    Line::from(text).width()
}

/// At most so many cells of a text; what is cut off becomes an ellipsis.
pub(super) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if width(&kept) >= room {
            kept.pop();
            break;
        }
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// Lines of at most so many cells, without a break inside of a part. Of a longer part, the beginning is shown.
pub(super) fn lines<'a>(parts: impl IntoIterator<Item = &'a str>, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(part) <= room => {
                line.push(' ');
                line.push_str(part);
            }
            _ => lines.push(cut(part, room)),
        }
    }
    lines
}

/// The first lines of these; the last one says by an ellipsis that there are more.
pub(super) fn first(mut lines: Vec<String>, count: usize, room: usize) -> Vec<String> {
    if lines.len() > count {
        lines.truncate(count);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), room);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_an_ellipsis_and_lines_have_room() {
        assert_eq!([4, 3, 1, 0].map(|room| cut("abcd", room)), ["abcd", "ab…", "…", ""]);
        // Letters that take two cells.
        assert_eq!([6, 5, 4, 2].map(|room| cut("日本語", room)), ["日本語", "日本…", "日…", "…"]);
        let broken = lines(["a", "bc", "def", "ghijklm"], 6);
        assert_eq!(broken, ["a bc", "def", "ghijk…"]);
        assert_eq!(first(broken.clone(), 2, 6), ["a bc", "def …"]);
        assert_eq!(first(broken.clone(), 2, 4), ["a bc", "def…"]);
        assert_eq!(first(broken.clone(), 3, 6), broken);
    }
}
