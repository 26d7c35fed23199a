#include "app/proxy.h"

int main(int argc, char** argv) { return fairlead::run_proxy(argc, argv); }
