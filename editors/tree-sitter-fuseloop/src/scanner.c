// Ends statements at newlines, by the rules of `grammar/src/layout.rs`. The parser asks for a newline
// only where the text before it can end a statement, and never inside round or square brackets. So it
// remains to look at the next token: a newline does not end a statement before one that cannot begin
// another.

#include "tree_sitter/parser.h"

#include <string.h>

enum Token { NEWLINE };

void *tree_sitter_fuseloop_external_scanner_create(void) { return NULL; }
void tree_sitter_fuseloop_external_scanner_destroy(void *payload) {}
unsigned tree_sitter_fuseloop_external_scanner_serialize(void *payload, char *buffer) { return 0; }
void tree_sitter_fuseloop_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {}

static bool is_space(int32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == 0xa0 || c == 0xfeff; }

static bool in_word(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether the word at this place is one that goes on with the statement before it.
static bool continues(TSLexer *lexer) {
    char word[8] = {0};
    for (unsigned length = 0; in_word(lexer->lookahead); length++) {
        if (length == sizeof word - 1) return false;
        word[length] = (char)lexer->lookahead;
        lexer->advance(lexer, false);
    }
    return !strcmp(word, "then") || !strcmp(word, "else") || !strcmp(word, "where") || !strcmp(word, "while");
}

// Whether the token at this place can begin a statement.
static bool can_begin(TSLexer *lexer) {
    switch (lexer->lookahead) {
    case ')':
    case ']':
    case '}':
    case '{':
    case ',':
    case ':':
        return false;
    case '=':
        lexer->advance(lexer, false);
        return lexer->lookahead == '=';
    case '-':
        lexer->advance(lexer, false);
        return lexer->lookahead != '>';
    case ';':
        return false;
    default:
        return !lexer->eof(lexer) && !continues(lexer);
    }
}

bool tree_sitter_fuseloop_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid_symbols) {
    if (!valid_symbols[NEWLINE]) return false;
    while (is_space(lexer->lookahead)) lexer->advance(lexer, true);
    if (lexer->lookahead != '\n') return false;
    lexer->advance(lexer, true);
    lexer->mark_end(lexer);
    lexer->result_symbol = NEWLINE;
    for (;;) {
        if (is_space(lexer->lookahead) || lexer->lookahead == '\n') {
            lexer->advance(lexer, false);
        } else if (lexer->lookahead == '#') {
            while (lexer->lookahead != '\n' && !lexer->eof(lexer)) lexer->advance(lexer, false);
        } else {
            return can_begin(lexer);
        }
    }
}
