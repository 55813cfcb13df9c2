use proptest::prelude::*;
use reqwest::Url;

use super::*;

fn base() -> Url {
    Url::parse("https://example.org/docs/page.html").unwrap()
}

fn markdown(html: &str) -> String {
    to_markdown(html, &base(), false).text
}

#[test]
fn a_page_becomes_text_that_reads_like_it() {
    let html = "<!DOCTYPE html><html><head><title>  A\n title </title><style>p{}</style></head>\
        <body><h1>Big <em>news</em></h1><p>One <b>bold</b> word, a <a href='../x?y=1'>link</a>\
        and <code>code</code>.<br>Next line.</p><ul><li>first<li>second <ol><li>inner</ol>\
        <li>third</ul><blockquote><p>Said.</p><p>Twice.</p></blockquote>\
        <pre>fn main() {\n    x &lt; y\n}</pre><hr><img alt='A cat' src=/cat.png>\
        <script>alert(1)</script><noscript>no</noscript><p>End &amp; done.</body></html>";
    let converted = to_markdown(html, &base(), false);
    assert_eq!(converted.title, "A title");
    let wanted = "\
# Big *news*

One **bold** word, a [link](https://example.org/x?y=1)and `code`.
Next line.

- first
- second
  1. inner
- third

> Said.
>
> Twice.

```
fn main() {
    x < y
}
```

---

![A cat](https://example.org/cat.png)

End & done.";
    assert_eq!(converted.text, wanted);
}

#[test]
fn a_table_has_rows_and_a_line_below_the_first() {
    let html = "<table><thead><tr><th>Name<th>Size</thead><tbody><tr><td><p>a</p><p>b</p></td>\
        <td>1</td></tr><tr><td>c<td></table>after";
    assert_eq!(markdown(html), "| Name | Size |\n| --- | --- |\n| a b | 1 |\n| c | |\n\nafter");
}

#[test]
fn what_people_do_not_see_is_left_out() {
    let html = "<p>seen</p><div hidden>a<div>b</div>c</div><span style='Display: none'>d</span>\
        <div style='visibility:hidden'>e</div><!-- f --><template>g</template>\
        <a href='javascript:x()'>words</a> <a href='data:text/html,x'></a><p>end</p>";
    assert_eq!(markdown(html), "seen\n\nwords\n\nend");
}

#[test]
fn of_a_page_with_a_main_part_only_that_is_taken() {
    let long = "word ".repeat(60);
    let html = format!("<nav>menu</nav><main><p>{long}</p></main><footer>imprint</footer>");
    let part = to_markdown(&html, &base(), false);
    assert!(part.is_main_part && part.text == long.trim(), "{part:?}");
    let whole = to_markdown(&html, &base(), true);
    assert!(!whole.is_main_part && whole.text.contains("menu") && whole.text.contains("imprint"));
    let short = to_markdown("<nav>menu</nav><main>x</main>", &base(), false);
    assert_eq!((short.text.as_str(), short.is_main_part), ("menu\n\nx", false));
}

#[test]
fn a_million_nested_elements_are_survived() {
    for name in ["div", "b", "ul><li", "blockquote", "table><tr><td", "a href=x", "div hidden"] {
        let html = format!("{}deep", format!("<{name}>").repeat(200_000));
        let text = markdown(&html);
        assert!(text.len() < 40_000_000, "{name}: {}", text.len());
    }
}

proptest! {
    #[test]
    fn no_page_breaks_it(parts in prop::collection::vec(prop_oneof![
        Just("<"), Just("</"), Just(">"), Just("div"), Just("<li>"), Just("</ul>"), Just("<td>"),
        Just("<tr>"), Just("</table>"), Just("<pre>"), Just("</pre>"), Just("<a href=x>"),
        Just("</a>"), Just("<b>"), Just("</b>"), Just("<main>"), Just("</main>"), Just("<table>"),
        Just("<blockquote>"), Just("</blockquote>"), Just("<script>"), Just("</script>"),
        Just(" "), Just("é"), Just("\n"), Just("text"), Just("<p hidden>"), Just("<div hidden>"),
    ], 0..60)) {
        let html = parts.concat();
        for whole in [false, true] {
            drop(to_markdown(&html, &base(), whole));
        }
    }
}
