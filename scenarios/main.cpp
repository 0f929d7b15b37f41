#include "scenarios/cli.h"

int main(int argc, char** argv) { return peerbed::peerbed_main(argc, argv); }
