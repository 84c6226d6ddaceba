//! The programs of the language page parse, to the trees shown here.

#[test]
fn the_programs_of_the_language_page() {
    let file = grammar::parse(include_str!("programs/language.fl")).unwrap();
    insta::assert_snapshot!(file.to_string());
}
