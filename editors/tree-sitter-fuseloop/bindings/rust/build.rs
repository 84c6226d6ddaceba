//! Compiles the generated parser.

fn main() {
    let files = ["src/parser.c", "src/scanner.c"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    // The generated code has unused parameters.
    cc::Build::new()
        .std("c11")
        .include("src")
        .flag_if_supported("-Wno-unused-parameter")
        .files(files)
        .compile("fuseloop");
}
